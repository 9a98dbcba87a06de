"""Futile orders are remembered; so are a job's first binding, a hold of a victim's own, and an array's newest task."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision: str | None = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job_memory", sa.Column("futile_count", sa.BigInteger(), nullable=True))
    op.add_column("job_memory", sa.Column("futile_ending", sa.Text(), nullable=True))
    op.add_column("job_memory", sa.Column("futile_said", sa.Text(), nullable=True))
    op.add_column("job_memory", sa.Column("futile_basis", sa.Text(), nullable=True))
    op.add_column("job_memory", sa.Column("futile_fellows", sa.BigInteger(), nullable=True))
    op.add_column("job_memory", sa.Column("futile_changed", sa.Boolean(), nullable=True))
    op.add_column("job_memory", sa.Column("bound_since", sa.Float(53), nullable=True))
    op.add_column("orders", sa.Column("newest_task", sa.BigInteger(), nullable=True))
    op.add_column("victims", sa.Column("held_before", sa.Boolean(), nullable=False, server_default=sa.false()))
