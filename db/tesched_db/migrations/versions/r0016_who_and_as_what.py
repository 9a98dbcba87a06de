"""Which process writes the store and whether it ended well; what running jobs said at their start; who paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision: str | None = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("daemon", sa.Column("role", sa.Text(), nullable=False, server_default="daemon"))
    op.add_column("daemon", sa.Column("pid_ticks", sa.BigInteger(), nullable=True))
    op.add_column("daemon", sa.Column("stopped_at", sa.Float(53), nullable=True))
    op.add_column("jobs", sa.Column("question", sa.JSON(), nullable=True))
    op.create_table(
        "deeds",
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("by_user", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_deeds")),
    )
