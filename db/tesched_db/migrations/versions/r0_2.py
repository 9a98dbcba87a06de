"""Whole schema of the first release.

Over 400 lines: one revision makes all tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0.2"
down_revision: str | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    # SQLite counts rows up by itself only in a column declared INTEGER.
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "changes",
        sa.Column("lever", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("lever", "job_id", name=op.f("pk_changes")),
    )
    op.create_table(
        "cycles",
        sa.Column("key", key, autoincrement=False, nullable=False),
        sa.Column("first_cycle", sa.BigInteger(), nullable=True),
        sa.Column("last_cycle", sa.BigInteger(), nullable=True),
        sa.Column("first_at", sa.Float(53), nullable=False),
        sa.Column("last_at", sa.Float(53), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("idle", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("observe_s", sa.Float(53), nullable=False),
        sa.Column("observe_max_s", sa.Float(53), nullable=False),
        sa.Column("step_s", sa.Float(53), nullable=False),
        sa.Column("step_max_s", sa.Float(53), nullable=False),
        sa.Column("act_s", sa.Float(53), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_cycles")),
    )
    op.create_index(op.f("ix_cycles_idle_key"), "cycles", ["idle", "key"])
    op.create_index(op.f("ix_cycles_last_at"), "cycles", ["last_at"])

    op.create_table(
        "daemon",
        sa.Column("key", key, autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.Text(), server_default="daemon", nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("pid_ticks", sa.BigInteger(), nullable=True),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(53), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("reported_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=True),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("next_at", sa.Float(53), nullable=False),
        sa.Column("stopped_at", sa.Float(53), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.Float(53), nullable=False),
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_place", sa.Text(), nullable=False),
        sa.Column("lease_since", sa.Float(53), nullable=False),
        sa.Column("clock_ahead_s", sa.Float(53), nullable=False),
        sa.Column("calls", sa.JSON(), nullable=False),
        sa.Column("told", sa.JSON(), nullable=True),
        sa.Column("doubts", sa.JSON(), nullable=True),
        sa.Column("marks_trouble", sa.Text(), nullable=False),
        sa.Column("admission_trouble", sa.Text(), nullable=False),
        sa.Column("metrics_trouble", sa.Text(), nullable=False),
        sa.Column("idle_trouble", sa.Text(), nullable=False),
        sa.Column("new_jobs", sa.Text(), nullable=False),
        sa.Column("leaving", sa.Text(), nullable=False),
        sa.Column("enforced", sa.JSON(), nullable=False),
        sa.Column("limits_unread", sa.JSON(), nullable=False),
        sa.Column("refused", sa.JSON(), nullable=False),
        sa.Column("held", sa.JSON(), nullable=False),
        sa.Column("bound", sa.JSON(), nullable=False),
        sa.Column("cycle", sa.BigInteger(), nullable=False),
        sa.Column("next_order", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_daemon")),
    )
    op.create_table(
        "deeds",
        sa.Column("key", key, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("by_user", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_deeds")),
    )
    op.create_table(
        "finished_runs",
        sa.Column("key", key, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("nodes", sa.BigInteger(), nullable=False),
        sa.Column("time_limit_s", sa.Float(53), nullable=True),
        sa.Column("run_s", sa.Float(53), nullable=False),
        sa.Column("end_s", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_finished_runs")),
        sa.UniqueConstraint("run", name=op.f("uq_finished_runs_run")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_finished_runs_end_s"), "finished_runs", ["end_s"])
    op.create_table(
        "run_time_levels",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("levels", sa.JSON(), nullable=False),
        sa.Column("written_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("cluster", name=op.f("pk_run_time_levels")),
    )

    op.create_table(
        "job_memory",
        sa.Column("job_id", key, autoincrement=False, nullable=False),
        sa.Column("preemptions", sa.BigInteger(), nullable=True),
        sa.Column("lost_runs", sa.BigInteger(), nullable=True),
        sa.Column("last_preempted", sa.Float(53), nullable=True),
        sa.Column("retry_at", sa.Float(53), nullable=True),
        sa.Column("futile_count", sa.BigInteger(), nullable=True),
        sa.Column("futile_ending", sa.Text(), nullable=True),
        sa.Column("futile_said", sa.Text(), nullable=True),
        sa.Column("futile_basis", sa.Text(), nullable=True),
        sa.Column("futile_fellows", sa.BigInteger(), nullable=True),
        sa.Column("futile_changed", sa.Boolean(), nullable=True),
        sa.Column("futile_first_restart", sa.BigInteger(), nullable=True),
        sa.Column("submitted_at", sa.Float(53), nullable=True),
        sa.Column("ran_s", sa.Float(53), nullable=True),
        sa.Column("suspended_s", sa.Float(53), nullable=True),
        sa.Column("longest_run_s", sa.Float(53), nullable=True),
        sa.Column("delayed_s", sa.Float(53), nullable=True),
        sa.Column("excused_s", sa.Float(53), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_memory")),
    )
    op.create_table(
        "jobs",
        sa.Column("key", key, autoincrement=False, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("first_submit_time", sa.Float(53), nullable=False),
        sa.Column("submit_time", sa.Float(53), nullable=False),
        sa.Column("array_job_id", sa.BigInteger(), nullable=True),
        sa.Column("array_task_id", sa.BigInteger(), nullable=True),
        sa.Column("het_job_id", sa.BigInteger(), nullable=True),
        sa.Column("het_offset", sa.BigInteger(), nullable=True),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("partition", sa.Text(), nullable=False),
        sa.Column("qos", sa.Text(), nullable=False),
        sa.Column("job_class", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("grace_period_s", sa.Float(53), nullable=False),
        sa.Column("grace_source", sa.Text(), nullable=False),
        sa.Column("notice_signal", sa.Text(), nullable=False),
        sa.Column("notice_target", sa.Text(), nullable=False),
        sa.Column("notice_source", sa.Text(), nullable=False),
        sa.Column("exit0", sa.Text(), nullable=False),
        sa.Column("elastic", sa.Boolean(), nullable=False),
        sa.Column("ends", sa.Boolean(), nullable=False),
        sa.Column("most_preemptions", sa.BigInteger(), nullable=True),
        sa.Column("not_followed", sa.JSON(), nullable=False),
        sa.Column("cpus", sa.BigInteger(), nullable=False),
        sa.Column("mem_mib", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.BigInteger(), nullable=False),
        sa.Column("min_nodes", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("flags", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("nice", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.Float(53), nullable=True),
        sa.Column("end_time", sa.Float(53), nullable=True),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=True),
        sa.Column("run_time_s", sa.Float(53), nullable=True),
        sa.Column("patience_s", sa.Float(53), nullable=True),
        sa.Column("patience_until", sa.Float(53), nullable=True),
        sa.Column("idle_since", sa.Float(53), nullable=True),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("question", sa.JSON(), nullable=True),
        sa.Column("first_seen", sa.Float(53), nullable=False),
        sa.Column("last_seen", sa.Float(53), nullable=True),
        sa.Column("waited_s", sa.Float(53), nullable=True),
        sa.Column("ran_s", sa.Float(53), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_jobs")),
    )
    op.create_index(op.f("ix_jobs_array_job_id_array_task_id"), "jobs", ["array_job_id", "array_task_id"])
    op.create_index(op.f("ix_jobs_end_time"), "jobs", ["end_time"])
    op.create_index(op.f("ix_jobs_het_job_id_het_offset"), "jobs", ["het_job_id", "het_offset"])
    op.create_index(op.f("ix_jobs_job_id_key"), "jobs", ["job_id", "key"])
    op.create_index(op.f("ix_jobs_last_seen"), "jobs", ["last_seen"])

    op.create_table(
        "outlived",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "at", name=op.f("pk_outlived")),
    )
    op.create_table(
        "paid",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("node_s", sa.Float(53), nullable=False),
        sa.Column("preemptor", sa.BigInteger(), nullable=True),
        sa.Column("preemptor_restarts", sa.BigInteger(), nullable=True),
        sa.Column("put_back_at", sa.Float(53), nullable=True),
        sa.Column("for_user", sa.Text(), nullable=False),
        sa.Column("for_account", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("withdrawn", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "at", name=op.f("pk_paid")),
    )
    op.create_table(
        "pause",
        sa.Column("key", key, autoincrement=False, nullable=False),
        sa.Column("since", sa.Float(53), nullable=False),
        sa.Column("until", sa.Float(53), nullable=True),
        sa.Column("by_user", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_pause")),
    )
    op.create_table(
        "policy_states",
        sa.Column("policy", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("policy", name=op.f("pk_policy_states")),
    )
    op.create_table(
        "standbys",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("started_at", sa.Float(53), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("host", "pid", name=op.f("pk_standbys")),
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
            "user_name", "workload", "scale", "accelerator", "partner", "partner_scale", name=op.f("pk_throughputs")
        ),
    )
    op.create_index(op.f("ix_throughputs_at"), "throughputs", ["at"])

    op.create_table(
        "actions",
        sa.Column("cycle_key", key, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("intended_at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("job_key", key, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("preemptor", sa.BigInteger(), nullable=True),
        sa.Column("order_id", sa.BigInteger(), nullable=True),
        sa.Column("signal", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("restarts", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.BigInteger(), nullable=True),
        sa.Column("previous", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("at", sa.Float(53), nullable=True),
        sa.Column("took_s", sa.Float(53), nullable=True),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cycle_key"], ["cycles.key"], name=op.f("fk_actions_cycle_key_cycles"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_actions_job_key_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("cycle_key", "position", name=op.f("pk_actions")),
    )
    op.create_index(op.f("ix_actions_intended_at"), "actions", ["intended_at"])
    op.create_index(op.f("ix_actions_job_key"), "actions", ["job_key"])
    op.create_index(op.f("ix_actions_order_id"), "actions", ["order_id"])

    op.create_table(
        "job_history",
        sa.Column("key", key, nullable=False),
        sa.Column("job_key", key, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("completing", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("submit_time", sa.Float(53), nullable=False),
        sa.Column("start_time", sa.Float(53), nullable=True),
        sa.Column("end_time", sa.Float(53), nullable=True),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_key"], ["jobs.key"], name=op.f("fk_job_history_job_key_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_job_history")),
    )
    op.create_index(op.f("ix_job_history_job_key"), "job_history", ["job_key"])

    op.create_table(
        "orders",
        sa.Column("order_id", key, autoincrement=False, nullable=False),
        sa.Column("in_memory", sa.Boolean(), nullable=False),
        sa.Column("preemptor", sa.BigInteger(), nullable=False),
        sa.Column("preemptor_key", key, nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("made_for_te", sa.Boolean(), nullable=False),
        sa.Column("waits_until", sa.Float(53), nullable=True),
        sa.Column("newest_task", sa.BigInteger(), nullable=True),
        sa.Column("lost_nodes", sa.JSON(), nullable=False),
        sa.Column("size", sa.JSON(), nullable=True),
        sa.Column("restarts", sa.BigInteger(), nullable=True),
        sa.Column("run_seen_at", sa.Float(53), nullable=True),
        sa.Column("started_at", sa.Float(53), nullable=True),
        sa.Column("ending", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(
            ["preemptor_key"], ["jobs.key"], name=op.f("fk_orders_preemptor_key_jobs"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_orders")),
    )
    op.create_index(op.f("ix_orders_created_at"), "orders", ["created_at"])
    op.create_index(op.f("ix_orders_ended_at"), "orders", ["ended_at"])
    op.create_index(op.f("ix_orders_in_memory"), "orders", ["in_memory"])
    op.create_index(op.f("ix_orders_preemptor_key"), "orders", ["preemptor_key"])

    op.create_table(
        "progress",
        sa.Column("job_key", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("iteration", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("loss", sa.Float(53), nullable=False),
        sa.Column("work", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_progress_job_key_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_key", "iteration", name=op.f("pk_progress")),
    )
    op.create_table(
        "refusals",
        sa.Column("key", key, autoincrement=False, nullable=False),
        sa.Column("preemptor", sa.BigInteger(), nullable=False),
        sa.Column("preemptor_key", key, nullable=True),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("job_key", key, nullable=True),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("score", sa.Float(53), nullable=True),
        sa.Column("behind", sa.Text(), nullable=False),
        sa.Column("more", sa.BigInteger(), nullable=False),
        sa.Column("first_seen", sa.Float(53), nullable=False),
        sa.Column("last_seen", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_refusals_job_key_jobs"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["preemptor_key"], ["jobs.key"], name=op.f("fk_refusals_preemptor_key_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_refusals")),
    )
    op.create_index(op.f("ix_refusals_job_key"), "refusals", ["job_key"])
    op.create_index(op.f("ix_refusals_last_seen"), "refusals", ["last_seen"])
    op.create_index(op.f("ix_refusals_preemptor_key"), "refusals", ["preemptor_key"])

    op.create_table(
        "reports",
        sa.Column("job_key", key, autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(53), nullable=True),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("target_loss", sa.Float(53), nullable=True),
        sa.Column("saved_at", sa.Float(53), nullable=True),
        sa.Column("refused", sa.Text(), nullable=False),
        sa.Column("sampled_at", sa.Float(53), nullable=False),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_reports_job_key_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_key", name=op.f("pk_reports")),
    )
    op.create_table(
        "transitions",
        sa.Column("key", key, nullable=False),
        sa.Column("order_id", key, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("state_before", sa.Text(), nullable=False),
        sa.Column("state_after", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_transitions_order_id_orders"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_transitions")),
    )
    op.create_index(op.f("ix_transitions_order_id"), "transitions", ["order_id"])

    op.create_table(
        "bystanders",
        sa.Column("job_key", key, nullable=False, autoincrement=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("in_memory", sa.Boolean(), nullable=False),
        sa.Column("submitted_at", sa.Float(53), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(53), nullable=True),
        sa.Column("by_jobs", sa.JSON(), nullable=False),
        sa.Column("delayed_s", sa.Float(53), nullable=False),
        sa.Column("by_own_user_s", sa.Float(53), nullable=False),
        sa.Column("shares", sa.JSON(), nullable=False),
        sa.Column("until_at", sa.Float(53), nullable=True),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_bystanders_job_key_jobs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_key", name=op.f("pk_bystanders")),
    )
    op.create_index(op.f("ix_bystanders_in_memory"), "bystanders", ["in_memory"])
    op.create_index(op.f("ix_bystanders_until_at"), "bystanders", ["until_at"])

    op.create_table(
        "victims",
        sa.Column("order_id", key, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("job_key", key, nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("grace_period_s", sa.Float(53), nullable=False),
        sa.Column("notice_signal", sa.Text(), nullable=False),
        sa.Column("notice_target", sa.Text(), nullable=False),
        sa.Column("exit0", sa.Text(), nullable=False),
        sa.Column("score", sa.Float(53), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.Float(53), nullable=False),
        sa.Column("queued_at", sa.Float(53), nullable=False),
        sa.Column("user_name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("for_user", sa.Text(), nullable=False),
        sa.Column("for_account", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("noticed_at", sa.Float(53), nullable=True),
        sa.Column("requeue_sent_at", sa.Float(53), nullable=True),
        sa.Column("by_suspending", sa.Boolean(), nullable=False),
        sa.Column("suspend_sent_at", sa.Float(53), nullable=True),
        sa.Column("suspend_unanswered_at", sa.Float(53), nullable=True),
        sa.Column("suspended_at", sa.Float(53), nullable=True),
        sa.Column("ending_since", sa.Float(53), nullable=True),
        sa.Column("saved_at", sa.Float(53), nullable=True),
        sa.Column("given_up_at", sa.Float(53), nullable=True),
        sa.Column("left_at", sa.Float(53), nullable=True),
        sa.Column("departure", sa.Text(), nullable=True),
        sa.Column("back_at", sa.Float(53), nullable=True),
        sa.Column("held_before", sa.Boolean(), nullable=False),
        sa.Column("ends", sa.Boolean(), nullable=False),
        sa.Column("size", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"], name=op.f("fk_victims_job_key_jobs"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["order_id"], ["orders.order_id"], name=op.f("fk_victims_order_id_orders"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("order_id", "position", name=op.f("pk_victims")),
    )
    op.create_index(op.f("ix_victims_back_at"), "victims", ["back_at"])
    op.create_index(op.f("ix_victims_job_key"), "victims", ["job_key"])
    op.create_index(op.f("ix_victims_left_at"), "victims", ["left_at"])
    op.create_index(op.f("ix_victims_suspended_at"), "victims", ["suspended_at"])
