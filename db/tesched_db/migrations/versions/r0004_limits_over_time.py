"""Limits by hour, user, account and node, a day's budget, a bound on slowdown: what was paid, and by whom."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("victims", sa.Column("queued_at", sa.Float(53), nullable=False, server_default="0"))
    op.add_column("victims", sa.Column("user_name", sa.Text(), nullable=False, server_default=""))
    op.add_column("victims", sa.Column("account", sa.Text(), nullable=False, server_default=""))
    op.add_column("job_memory", sa.Column("submitted_at", sa.Float(53), nullable=True))
    op.add_column("job_memory", sa.Column("ran_s", sa.Float(53), nullable=True))
    op.create_table(
        "paid",
        sa.Column("job_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("node_s", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "at", name="pk_paid"),
    )
