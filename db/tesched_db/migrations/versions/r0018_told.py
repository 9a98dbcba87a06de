"""What became of the command that tells users of preemptions is shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision: str | None = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("daemon", sa.Column("told", sa.JSON(), nullable=True))
