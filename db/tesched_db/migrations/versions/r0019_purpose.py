"""What a victim leaves for: a TE job, or the turn of a BE job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision: str | None = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    for table in ("victims", "paid"):
        op.add_column(table, sa.Column("purpose", sa.Text(), nullable=False, server_default="te"))
