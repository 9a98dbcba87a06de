"""Of several daemons one leads, by a lease; an admin may pause it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision: str | None = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("daemon", sa.Column("lease_until", sa.Float(53), nullable=False, server_default="0"))
    op.add_column("daemon", sa.Column("lease_token", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("daemon", sa.Column("lease_place", sa.Text(), nullable=False, server_default=""))
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "pause",
        sa.Column("key", key, nullable=False, autoincrement=False),
        sa.Column("since", sa.Float(53), nullable=False),
        sa.Column("until", sa.Float(53), nullable=True),
        sa.Column("by_user", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_pause"),
    )
