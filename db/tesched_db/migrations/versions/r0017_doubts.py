"""Jobs whose records could not be read whole are shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision: str | None = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("daemon", sa.Column("doubts", sa.JSON(), nullable=True))
