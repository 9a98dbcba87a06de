"""What jobs report of themselves: losses, speeds, and why a report is not used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision: str | None = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "reports",
        sa.Column("job_key", key, autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=True),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("target_loss", sa.Float(53), nullable=True),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.Column("sampled_at", sa.Float(53), nullable=False),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name="fk_reports_job_key_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_key", name="pk_reports"),
    )
    op.create_table(
        "progress",
        sa.Column("job_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("iteration", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("loss", sa.Float(53), nullable=False),
        sa.Column("work", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name="fk_progress_job_key_jobs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_key", "iteration", name="pk_progress"),
    )
    op.create_table(
        "throughputs",
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("scale", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("accelerator", sa.Text(), nullable=False),
        sa.Column("partner", sa.Text(), nullable=False),
        sa.Column("partner_scale", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("steps_per_s", sa.Float(53), nullable=False),
        sa.Column("samples", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint(
            "user_name", "workload", "scale", "accelerator", "partner", "partner_scale", name="pk_throughputs"
        ),
    )
    op.create_index("ix_throughputs_at", "throughputs", ["at"])
