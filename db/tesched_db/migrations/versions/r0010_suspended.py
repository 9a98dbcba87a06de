"""A victim may be suspended instead of requeued; how long a job was suspended counts as waiting."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision: str | None = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("victims", sa.Column("by_suspending", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("victims", sa.Column("suspend_sent_at", sa.Float(53), nullable=True))
    op.add_column("victims", sa.Column("suspended_at", sa.Float(53), nullable=True))
    op.add_column("job_memory", sa.Column("suspended_s", sa.Float(53), nullable=True))
