"""Who stands by and since when the leader leads; how far its clock is ahead; how often it calls Slurm."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("daemon", sa.Column("lease_since", sa.Float(53), nullable=False, server_default="0"))
    op.add_column("daemon", sa.Column("clock_ahead_s", sa.Float(53), nullable=False, server_default="0"))
    op.add_column("daemon", sa.Column("calls", sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "standbys",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("started_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("host", "pid", name="pk_standbys"),
    )
