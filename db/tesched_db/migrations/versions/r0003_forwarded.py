"""A waiting best-effort job may be brought forward, to fill room that is left over."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision: str | None = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job_memory", sa.Column("forwarded_at", sa.Float(53), nullable=True))
    op.add_column("job_memory", sa.Column("raised_lever", sa.Text(), nullable=True))
    op.add_column("job_memory", sa.Column("raised_previous", sa.BigInteger(), nullable=True))
    op.add_column("job_memory", sa.Column("raised_value", sa.BigInteger(), nullable=True))
    op.add_column("job_memory", sa.Column("raised_restored", sa.Boolean(), nullable=True))
