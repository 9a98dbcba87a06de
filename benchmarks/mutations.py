"""Whether the tests notice when a rule is broken: `python -m benchmarks.mutations [--check] [WORD …]`.

Each rule of the heart, of the simulator, of the loop and of the store (`broken_rules.py`) is changed in one place, in a
copy; then at least one test must fail. What survives is printed, and ends the command with status 1. It takes about ten
minutes; with words, only rules with one of them in their name or file are tried. First the text of every rule must be
in its file, once; with `--check`, nothing else is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.broken_rules import MUTATIONS
from benchmarks.mutation import Mutation

ROOT = Path(__file__).parents[1]
ROOMS = (
    "core",
    "policies",
    "predict",
    "sim",
    "slurm",
    "db",
    "daemon",
    "report",
    "cli",
    "systemd",
    "slurm_test_cluster",
    "tests",
)
TESTS = (
    "tests/unit/policies/test_victim_search.py",
    "tests/unit/core/guard/test_budget.py",
    "tests/unit/core/guard/test_guard.py",
    "tests/unit/core/model/test_refused.py",
    "tests/unit/policies/test_fitgpp.py",
    "tests/unit/core/intake/test_pending_reason.py",
    "tests/scenarios",
    "tests/integration/test_loop.py",
    "tests/integration/test_faults_found.py",
)
#: of what only the daemon and its store do
DAEMON_TESTS = (
    "tests/unit/daemon/test_plausibility.py",
    "tests/integration/test_loop.py",
    "tests/integration/test_faults_found.py",
    "tests/integration/test_lease.py",
    "tests/integration/test_db_journal.py",
)
_BETWEEN, _PLACES = "tests/scenarios/test_bound_between_polls.py", "tests/scenarios/test_bound_places.py"
_LEFT, _UNEVEN = "tests/scenarios/test_fields_left.py", "tests/unit/core/placement/test_uneven.py"
_CANDIDATES = "tests/unit/policies/test_candidates.py"
_LET, _MISUSE = "tests/scenarios/test_let_through.py", "tests/scenarios/test_misuse.py"
_OWN = ("tests/scenarios/test_own_user.py", "tests/scenarios/test_grown.py")
#: by a file's name: the tests that are run first, since they are about it
NEAR = {
    "among_equals": ("tests/unit/policies/test_among_equals.py",),
    "fewest": ("tests/unit/core/placement/test_fewest.py", "tests/unit/policies/test_among_equals.py"),
    "admission_file": ("tests/unit/daemon/test_admission_file.py",),
    "own_file": ("tests/unit/daemon/test_own_file.py", "tests/unit/daemon/test_idle_file.py"),
    "idle_file": ("tests/unit/daemon/test_idle_file.py",),
    "ranges": ("tests/integration/test_config_edges.py",),
    "config_checks": ("tests/unit/daemon/test_config_checks.py",),
    "config": ("tests/unit/daemon/test_config_all_errors.py",),
    "limits_ahead": ("tests/unit/daemon/test_limits_ahead.py",),
    "admission_rules": ("tests/unit/daemon/test_admission_file.py",),
    "bound": ("tests/unit/daemon/doctor/test_bound.py",),
    "hook": ("tests/scenarios/test_held_by_hook.py",),
    "deadlines": ("tests/scenarios/test_bound.py", _BETWEEN, _PLACES),
    "te_runs": (_BETWEEN,),
    "te_limits": ("tests/scenarios/test_te_limits.py", _LET, _MISUSE),
    "other_hand": (_LET, "tests/scenarios/test_victim.py"),
    "misuse": (_MISUSE,),
    "step": ("tests/scenarios/test_te_limits.py", _BETWEEN),
    "r0_2": ("tests/integration/test_finished_runs.py",),
    "finished_runs": ("tests/unit/core/intake/test_finished_runs.py", "tests/integration/test_finished_runs.py"),
    "run_time_source": ("tests/integration/test_run_time_source.py",),
    "expectation": ("tests/integration/test_cli_expected.py",),
    "calibration": ("tests/unit/predict/test_calibration.py",),
    "groups": ("tests/unit/predict/test_calibration.py",),
    "history": ("tests/unit/predict/test_quantiles.py",),
    "snapshot": ("tests/integration/test_run_time_source.py", "tests/unit/core/placement/test_expected_runs.py"),
    "advance": (
        "tests/scenarios/test_bound.py",
        "tests/scenarios/test_left_held.py",
        "tests/scenarios/test_notice.py",
        "tests/scenarios/test_victim.py",
        "tests/scenarios/test_preemptor.py",
        "tests/scenarios/test_slow_to_leave.py",
        "tests/scenarios/test_refused_changes.py",
        *_OWN,
    ),
    "size": ("tests/unit/core/model/test_size.py", *_OWN),
    "order": (*_OWN, "tests/scenarios/test_ends_for_good.py"),
    "refused": ("tests/scenarios/test_refused_changes.py",),
    "refused_changes": ("tests/scenarios/test_refused_changes.py",),
    "nice": (_LEFT, "tests/scenarios/test_queue_order.py", "tests/scenarios/test_refused_changes.py"),
    "suspend": _OWN,
    "victim_boost": ("tests/scenarios/test_refused_changes.py", *_OWN),
    "hold": (
        "tests/scenarios/test_held_by_hook.py",
        "tests/scenarios/test_victim.py",
        _LET,
        "tests/scenarios/test_refused_changes.py",
        _BETWEEN,
    ),
    "eligibility": (
        "tests/unit/core/guard/test_own_most.py",
        "tests/unit/core/guard/test_guard.py",
        "tests/unit/core/placement/test_expected_runs.py",
        "tests/scenarios/test_several_orders.py",
    ),
    "admission": ("tests/unit/core/guard/test_guard.py", _BETWEEN),
    "victim_search": (
        "tests/unit/policies/test_among_equals.py",
        "tests/scenarios/test_several_orders.py",
        "tests/unit/core/placement/test_node_count.py",
    ),
    "change": ("tests/scenarios/test_binding.py", _LET),
    "tell_users": ("tests/scenarios/test_told.py", "tests/scenarios/test_ends_for_good.py"),
    "node_binding": (
        "tests/scenarios/test_binding.py",
        "tests/scenarios/test_slow_to_leave.py",
        "tests/scenarios/test_refused_changes.py",
    ),
    "context": ("tests/scenarios/test_slow_to_leave.py",),
    "leave_times": ("tests/scenarios/test_slow_to_leave.py",),
    "pyslurm_client": ("tests/unit/slurm/test_pyslurm_nodes.py",),
    "can_return": ("tests/unit/core/placement/test_can_return.py", "tests/scenarios/test_first_look.py"),
    "within_limits": (
        "tests/unit/core/placement/test_within_limits.py",
        "tests/unit/core/placement/test_can_return.py",
    ),
    "slurm_limits": (
        "tests/unit/core/placement/test_within_limits.py",
        "tests/unit/core/placement/test_can_return.py",
    ),
    "clear_of_limits": ("tests/unit/slurm/test_clear_of_limits.py",),
    "scontrol_limits": ("tests/unit/slurm/test_scontrol_limits.py",),
    "sacctmgr_qos": ("tests/unit/slurm/test_sacctmgr_qos.py",),
    "group_members": ("tests/unit/slurm/test_scontrol_limits.py",),
    "pending_reason": ("tests/unit/core/intake/test_pending_reason.py",),
    "reconcile": (
        "tests/unit/core/fields/test_reconcile.py",
        "tests/scenarios/test_begin_time.py",
        "tests/scenarios/test_shares.py",
    ),
    "begin_time": ("tests/scenarios/test_begin_time.py",),
    "leave_together": ("tests/scenarios/test_leave_together.py",),
    "held": ("tests/integration/test_leave_times.py",),
    "budget": ("tests/unit/core/guard/test_guard.py", "tests/unit/core/guard/test_budget.py", *_OWN),
    "ends_for_good": ("tests/unit/core/intake/test_ends_for_good.py", "tests/scenarios/test_ends_for_good.py"),
    "requeue": ("tests/scenarios/test_ends_for_good.py",),
    "patience": ("tests/scenarios/test_patience.py",),
    "not_followed": ("tests/unit/core/intake/test_not_followed.py", "tests/integration/test_cli_own_most.py"),
    "classify": tuple(f"tests/unit/core/intake/test_{name}.py" for name in ("classify", "notices", "not_followed")),
    "class_rules": ("tests/unit/core/intake/test_notices.py", "tests/unit/daemon/doctor/test_bound.py"),
    "cluster_bounds": ("tests/unit/slurm/test_cluster_bounds.py",),
    "scontrol_cluster": ("tests/unit/slurm/test_cluster_bounds.py", "tests/unit/slurm/test_scontrol_cluster.py"),
    "slurm_formats": ("tests/unit/slurm/test_slurm_formats.py",),
    "demand": (
        "tests/scenarios/test_memory_reading.py",
        "tests/unit/core/placement/test_room.py",
        "tests/unit/core/placement/test_node_count.py",
        "tests/unit/core/placement/test_spread.py",
        "tests/unit/core/placement/test_modelled.py",
        "tests/unit/core/placement/test_partition_limits.py",
        _PLACES,
        _UNEVEN,
        _CANDIDATES,
    ),
    "allowed": (
        "tests/unit/core/placement/test_node_count.py",
        "tests/unit/core/placement/test_partition_limits.py",
        "tests/unit/core/placement/test_room.py",
        "tests/unit/core/placement/test_modelled.py",
        _UNEVEN,
    ),
    "candidates": ("tests/unit/core/placement/test_node_count.py", _UNEVEN, _CANDIDATES),
    "node_count": ("tests/unit/core/placement/test_node_count.py", "tests/scenarios/test_binding.py", _CANDIDATES),
    "modelled": (
        "tests/unit/core/placement/test_node_count.py",
        "tests/unit/core/placement/test_modelled.py",
        "tests/unit/core/placement/test_room.py",
        _PLACES,
        _UNEVEN,
        _CANDIDATES,
    ),
    "spread": ("tests/unit/core/placement/test_spread.py", _UNEVEN),
    "uneven": (_UNEVEN, _CANDIDATES, "tests/unit/core/placement/test_spread.py"),
    "what_if": ("tests/unit/core/placement/test_fewest.py",),
    "memory_reading": ("tests/unit/core/placement/test_memory_reading.py",),
    "job_records": ("tests/unit/slurm/test_queue.py",),
    "hidden_tasks": ("tests/unit/slurm/test_hidden_tasks.py",),
    "user_turns": ("tests/unit/slurm/test_hidden_tasks.py", "tests/unit/slurm/test_declared_signal.py"),
    "queue": ("tests/unit/slurm/test_hidden_tasks.py", "tests/unit/slurm/test_queue.py"),
    "declared_signal": ("tests/unit/slurm/test_declared_signal.py", "tests/unit/slurm/test_submit_line.py"),
    "submit_line": ("tests/unit/slurm/test_submit_line.py",),
    "details": ("tests/unit/slurm/test_forged_records.py", "tests/unit/slurm/test_queue.py"),
    "common": ("tests/integration/test_cli_users_text.py",),
    "plausibility": ("tests/unit/daemon/test_plausibility.py",),
    "fill": ("tests/scenarios/test_fill.py", "tests/scenarios/test_fill_room.py"),
    "queue_boost": (
        _LEFT,
        "tests/scenarios/test_two_raises.py",
        "tests/scenarios/test_fill.py",
        "tests/scenarios/test_fill_room.py",
    ),
    "first_look": ("tests/scenarios/test_first_look.py",),
    "futility": (
        "tests/scenarios/test_came_back.py",
        "tests/scenarios/test_came_back.py",
        "tests/scenarios/test_memory_reading.py",
        "tests/scenarios/test_futility.py",
        "tests/scenarios/test_useful_run.py",
        "tests/scenarios/test_useful_run_of_arrays.py",
    ),
    "useful_run": ("tests/scenarios/test_useful_run.py", "tests/scenarios/test_useful_run_of_arrays.py"),
    "settled": ("tests/scenarios/test_useful_run.py",),
    "queries": ("tests/integration/test_db_read.py",),
    "guard": ("tests/unit/core/guard/test_guard.py", "tests/scenarios/test_notice.py"),
    "cluster": ("tests/scenarios/test_marking.py",),
    "mark": ("tests/scenarios/test_marking.py", "tests/scenarios/test_came_back.py"),
    "came_back": ("tests/scenarios/test_came_back.py", "tests/scenarios/test_last_victim.py"),
    "marking": (
        "tests/scenarios/test_what_slurm_did.py",
        "tests/scenarios/test_marking.py",
        "tests/scenarios/test_useful_run.py",
        "tests/scenarios/test_useful_run_of_arrays.py",
        "tests/scenarios/test_last_victim.py",
    ),
    "marks_file": ("tests/unit/daemon/test_marks_file.py",),
    "draft": ("tests/unit/core/model/test_draft.py",),
    "memory_rows": ("tests/integration/test_db_journal.py",),
    "missing": (_LEFT, "tests/scenarios/test_missing.py", "tests/scenarios/test_bystanders.py"),
    "journal": ("tests/integration/test_lease.py", "tests/integration/test_set_aside.py"),
    "lease": ("tests/integration/test_lease.py",),
    "process": ("tests/integration/test_lease.py",),
    "store_file": ("tests/integration/test_store_lost.py",),
    "engine": ("tests/integration/test_store_lost.py", "tests/integration/test_store_cut_off.py"),
    "answering": ("tests/integration/test_store_cut_off.py",),
    "liveness": ("tests/integration/test_cli_status.py",),
    "job_rows": ("tests/integration/test_class_of_a_run.py", "tests/integration/test_cli_explain.py"),
    "inbox": ("tests/integration/test_report_inbox.py", "tests/integration/test_report_socket.py"),
    "log_lines": ("tests/unit/daemon/test_log_lines.py",),
    "rest": ("tests/unit/daemon/test_rest.py", "tests/integration/test_polls_at_rest.py"),
    "resting_observer": ("tests/unit/slurm/test_resting_observer.py",),
    "loop": (
        "tests/unit/daemon/test_rate_limited.py",
        "tests/integration/test_loop.py",
        "tests/integration/test_polls_at_rest.py",
        "tests/integration/test_class_of_a_run.py",
        "tests/integration/test_set_aside.py",
    ),
    "performing": ("tests/integration/test_loop.py",),
    "set_aside": ("tests/integration/test_set_aside.py",),
    "errors": ("tests/integration/test_set_aside.py",),
    "early_rerun": ("tests/scenarios/test_early_rerun.py", "tests/scenarios/test_ends_for_good.py"),
    "bystanders": (
        "tests/scenarios/test_bystanders.py",
        "tests/scenarios/test_bystanders_examined.py",
        _BETWEEN,
        _PLACES,
    ),
    "bystander": ("tests/scenarios/test_bystanders.py",),
    "bystander_rows": ("tests/integration/test_db_delays.py",),
    "column_layout": ("tests/unit/core/placement/test_room.py",),
    "in_the_way": ("tests/unit/core/placement/test_in_the_way.py",),
    "alike": (_PLACES, "tests/scenarios/test_bound.py", "tests/unit/core/placement/test_alike.py"),
    "te_queue": ("tests/scenarios/test_bound_arrays.py",),
    "delays": (
        "tests/unit/core/intake/test_delays.py",
        "tests/integration/test_db_delays.py",
        "tests/integration/test_cli_delays.py",
    ),
    "serve": ("tests/scenarios/test_many_patient.py",),
    "summary": ("tests/unit/sim/test_report_summary.py",),
    "slurm": ("tests/unit/sim/test_actions.py", "tests/unit/sim/test_arrays.py"),
    "clock_jump": ("tests/unit/core/intake/test_delays.py", "tests/scenarios/test_bystanders.py"),
    "retention": ("tests/integration/test_db_prune.py",),
    "departures": (
        "tests/scenarios/test_early_rerun.py",
        "tests/scenarios/test_left_held.py",
        "tests/scenarios/test_ends_for_good.py",
    ),
    "rate_limits": ("tests/unit/daemon/test_rate_limited.py",),
    "rate_limited": ("tests/unit/daemon/test_rate_limited.py",),
    "commands_actuator": ("tests/unit/slurm/test_sluid.py",),
    "clients": ("tests/unit/slurm/test_sluid.py",),
    "probes": ("tests/unit/daemon/test_probes.py", "tests/integration/test_loop.py"),
    "wakeup": (
        "tests/unit/daemon/test_wakeup.py",
        "tests/unit/daemon/test_wakeup_shares.py",
        "tests/unit/daemon/test_rate_limited.py",
    ),
    **dict.fromkeys(
        ("tail", "endpoint", "families", "exporter"),
        ("tests/unit/daemon/test_metrics_families.py", "tests/integration/test_metrics.py"),
    ),
    **dict.fromkeys(
        ("app", "command", "content", "drawing", "templating", "timeline"),
        (
            "tests/unit/sim/test_templating.py",
            "tests/unit/cli/test_web_drawing.py",
            "tests/integration/test_db_timeline.py",
            "tests/integration/test_web_options.py",
            "tests/integration/test_web.py",
        ),
    ),
    "wakeup_shares": ("tests/unit/daemon/test_wakeup_shares.py",),
    "rates": ("tests/unit/daemon/test_wakeup_shares.py",),
    "reinforce": ("tests/scenarios/test_robbed.py",),
    "columns_of": ("tests/scenarios/test_notice.py", "tests/unit/core/placement/test_expected_runs.py"),
    "plugin": ("tests/unit/daemon/doctor/test_plugin.py",),
    "plugin_fit": ("tests/unit/daemon/test_marks_file.py", "tests/unit/daemon/doctor/test_plugin.py"),
    "nice_rule": (
        "tests/scenarios/test_two_raises.py",
        "tests/scenarios/test_queue_order.py",
        "tests/scenarios/test_fill.py",
        "tests/scenarios/test_missing.py",
    ),
    "priority": (
        "tests/scenarios/test_two_raises.py",
        "tests/scenarios/test_queue_order.py",
        "tests/scenarios/test_victim.py",
        "tests/scenarios/test_refused_changes.py",
    ),
    "sdnotify": ("tests/unit/daemon/test_log_lines.py",),
    "turnover": ("tests/scenarios/test_marking.py", "tests/scenarios/test_turnover.py"),
    "undo": (_LEFT, "tests/scenarios/test_undo.py", "tests/scenarios/test_refused_changes.py"),
    "visible": ("tests/unit/core/model/test_visible.py",),
}


def faults_of(mutation: Mutation) -> Iterator[str]:
    """Yield what keeps this rule from being broken."""
    path = ROOT / mutation.path
    count = path.read_text(encoding="utf-8").count(mutation.text) if path.is_file() else 0
    if count != 1:
        yield f"{mutation.rule}: {mutation.path} has {mutation.text!r} {count} times, not once"
    if mutation.instead == mutation.text:
        yield f"{mutation.rule}: nothing is changed in {mutation.path}"


def survives(mutation: Mutation, folder: Path) -> bool:
    """Return whether all tests pass with the rule broken."""
    path = folder / mutation.path
    whole = path.read_text()
    path.write_text(whole.replace(mutation.text, mutation.instead))
    all_tests = TESTS if mutation.path.startswith(("core", "policies", "sim")) else DAEMON_TESTS
    near = NEAR.get(path.stem, ())
    try:
        return (not near or _pass(near, folder)) and _pass(all_tests, folder)
    finally:
        path.write_text(whole)


def _pass(tests: Sequence[str], folder: Path) -> bool:
    rooms = os.pathsep.join(str(folder / room) for room in (*ROOMS[:-1], "."))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not postgresql", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": rooms, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def main() -> int:
    """Print what became of each mutation; return 1 if one survived, or if one's text is not in its file once."""
    faults = [fault for mutation in MUTATIONS for fault in faults_of(mutation)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    words = [word for word in sys.argv[1:] if word != "--check"]
    if "--check" in sys.argv[1:]:
        return 0
    chosen = [one for one in MUTATIONS if not words or any(word in one.rule or word in one.path for word in words)]
    left = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for room in ROOMS:
            shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for mutation in chosen:
            alive = survives(mutation, folder)
            left += alive
            print(f"{'SURVIVES' if alive else 'noticed '}  {mutation.rule} ({mutation.path})", flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} are noticed")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main())
