"""An order may wait for room that comes free by itself; a victim that waits to run again is brought forward."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision: str | None = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("orders", sa.Column("waits_until", sa.Float(53), nullable=True))
    op.add_column("victims", sa.Column("raised_lever", sa.Text(), nullable=True))
    op.add_column("victims", sa.Column("raised_previous", sa.BigInteger(), nullable=True))
    op.add_column("victims", sa.Column("raised_value", sa.BigInteger(), nullable=True))
    op.add_column("victims", sa.Column("raised_restored", sa.Boolean(), nullable=True))
