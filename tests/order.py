"""Order in which files of tests run: the longest first, so that none is left to one worker at the end."""

from __future__ import annotations

#: folders by what a file of theirs takes at most
TIERS = ("tests/cluster/", "tests/integration/", "tests/properties/", "tests/scenarios/", "tests/unit/")
#: files of more than half a minute, the longest first (`--durations=0`, added up by file)
LONGEST = (
    "tests/properties/test_bound_attack.py",
    "tests/cluster/test_placement.py",
    "tests/cluster/test_suspend.py",
    "tests/cluster/test_crash.py",
    "tests/cluster/test_plugin.py",
    "tests/cluster/test_large_site.py",
    "tests/cluster/test_stock.py",
    "tests/cluster/test_undone_raise.py",
    "tests/cluster/test_main_job.py",
    "tests/cluster/test_ordinary_jobs.py",
    "tests/cluster/test_local_cluster.py",
    "tests/cluster/test_hostile_user.py",
    "tests/cluster/test_gavel.py",
    "tests/cluster/test_plugin_faults.py",
    "tests/cluster/test_futility.py",
    "tests/cluster/test_plugin_lever.py",
    "tests/cluster/test_plugin_jobs.py",
    "tests/cluster/test_binding.py",
    "tests/cluster/test_no_preemption.py",
    "tests/cluster/test_demo.py",
    "tests/cluster/test_observer.py",
    "tests/cluster/test_actuator.py",
    "tests/integration/test_two_daemons.py",
    "tests/properties/test_gavel_oracle.py",
)


def place(node_id: str) -> tuple[int, int]:
    """Return the place of a test's file: lower ones run earlier, equal ones keep their order."""
    file = node_id.partition("::")[0]
    tier = next((number for number, folder in enumerate(TIERS) if file.startswith(folder)), len(TIERS))
    return (0, LONGEST.index(file)) if file in LONGEST else (1, tier)
