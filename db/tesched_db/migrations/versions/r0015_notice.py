"""A notice goes only to jobs that declared one, and to the processes that they say; who caused what a victim paid."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision: str | None = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. Until now a notice went to the batch shell, or to all processes."""
    for table in ("jobs", "victims"):
        op.add_column(table, sa.Column("notice_target", sa.Text(), nullable=False, server_default="batch"))
        op.add_column(table, sa.Column("exit0", sa.Text(), nullable=False, server_default="finished"))
        rows = sa.table(table, sa.column("notice_target", sa.Text()), sa.column("notice_batch_only", sa.Boolean()))
        op.execute(rows.update().where(sa.not_(rows.c.notice_batch_only)).values(notice_target="full"))
        op.drop_column(table, "notice_batch_only")
    op.add_column("jobs", sa.Column("notice_source", sa.Text(), nullable=False, server_default=""))
    op.add_column("actions", sa.Column("target", sa.Text(), nullable=True))
    op.execute(sa.text("UPDATE actions SET target = 'batch' WHERE batch_only"))
    op.execute(sa.text("UPDATE actions SET target = 'full' WHERE NOT batch_only"))
    op.drop_column("actions", "batch_only")
    for table in ("victims", "paid"):
        op.add_column(table, sa.Column("for_user", sa.Text(), nullable=False, server_default=""))
        op.add_column(table, sa.Column("for_account", sa.Text(), nullable=False, server_default=""))
    op.add_column("paid", sa.Column("preemptor", sa.BigInteger(), nullable=True))
