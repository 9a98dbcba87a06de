"""Order in which files of tests run: tests that wait beside tests that compute, and no long file left for the end.

Files of tests/cluster wait for Slurm most of the time, the others keep a core busy. So the longest files of both kinds
run first, and then the rest of both side by side: in proportion to how many there are, each kind tier by tier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: folders whose tests wait
WAITING = "tests/cluster/"
#: folders whose tests compute, by what a file of theirs takes at most
TIERS = ("tests/integration/", "tests/properties/", "tests/scenarios/", "tests/unit/")
#: those that wait have all begun when this share of those that compute has
_WAITING_DONE = 0.8
#: files of more than half a minute of waiting, or ten seconds of a core, the longest first (`--durations=0`, added up
#: by file): of each four one or two that compute
LONGEST = (
    "tests/properties/test_bound_attack.py",
    "tests/cluster/test_placement.py",
    "tests/properties/test_bound_attack_later.py",
    "tests/cluster/test_large_site.py",
    "tests/cluster/test_stock.py",
    "tests/cluster/test_ordinary_jobs.py",
    "tests/cluster/test_admission.py",
    "tests/properties/test_faults.py",
    "tests/cluster/test_hostile_user.py",
    "tests/cluster/test_plugin_jobs.py",
    "tests/cluster/test_demo.py",
    "tests/unit/papers/gavel/test_anchors.py",
    "tests/cluster/test_open_node_count.py",
    "tests/cluster/test_can_return.py",
    "tests/properties/test_gavel_oracle.py",
    "tests/cluster/test_main_job.py",
    "tests/cluster/test_plugin_lever.py",
    "tests/integration/test_db_round_trip.py",
    "tests/cluster/test_plugin_faults.py",
    "tests/cluster/test_actuator.py",
    "tests/properties/test_gavel_properties.py",
    "tests/cluster/test_own_preemptions.py",
    "tests/cluster/test_limits_unread.py",
    "tests/integration/test_config_edges.py",
    "tests/cluster/test_suspend.py",
    "tests/cluster/test_crash.py",
    "tests/integration/test_cli_users_text.py",
    "tests/integration/test_cli_top.py",
    "tests/cluster/test_plugin.py",
    "tests/cluster/test_slow_epilog.py",
    "tests/cluster/test_leave_together.py",
    "tests/cluster/test_no_preemption.py",
    "tests/cluster/test_web.py",
    "tests/cluster/test_uneven_shares.py",
    "tests/cluster/test_delays.py",
    "tests/integration/test_two_daemons.py",
    "tests/cluster/test_futility.py",
    "tests/cluster/test_observer.py",
    "tests/properties/test_users_text.py",
    "tests/cluster/test_admission_hook.py",
    "tests/cluster/test_local_cluster.py",
    "tests/cluster/test_gavel.py",
    "tests/cluster/test_binding.py",
    "tests/cluster/test_undone_raise.py",
)


def places(files: Iterable[str]) -> Mapping[str, float]:
    """Return the place of each of these files: lower ones run earlier."""
    rest = [file for file in dict.fromkeys(files) if file not in LONGEST]
    waiting = [file for file in rest if file.startswith(WAITING)]
    computing = sorted((file for file in rest if not file.startswith(WAITING)), key=_tier)
    found: dict[str, float] = {file: -1.0 / (1 + place) for place, file in enumerate(LONGEST)}
    for share, group in ((_WAITING_DONE, waiting), (1.0, computing)):
        found |= {file: share * number / len(group) for number, file in enumerate(group)}
    return found


def _tier(file: str) -> int:
    return next((number for number, folder in enumerate(TIERS) if file.startswith(folder)), len(TIERS))


def file_of(node_id: str) -> str:
    """Return the file of a test."""
    return node_id.partition("::")[0]
