"""A trial-and-error job that has asked somebody to leave may be bound to the nodes where room is made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision: str | None = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("job_memory", sa.Column("bound_at", sa.Float(53), nullable=True))
    op.add_column("job_memory", sa.Column("bound_order_id", sa.BigInteger(), nullable=True))
    op.add_column("job_memory", sa.Column("bound_nodes", sa.JSON(), nullable=True))
    op.add_column("job_memory", sa.Column("bound_previous", sa.JSON(), nullable=True))
