"""A job that asked for a range of nodes may be told how many it gets; what it asked for is remembered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision: str | None = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job_memory", sa.Column("bound_count", sa.JSON(), nullable=True))
