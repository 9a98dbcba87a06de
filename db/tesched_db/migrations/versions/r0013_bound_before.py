"""A job may be bound anew before an earlier binding is gone; which that was is remembered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision: str | None = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job_memory", sa.Column("bound_before", sa.JSON(), nullable=True))
