"""What slurm.conf says to the plugin preempt/tesched, as it is read."""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import PluginSettings
from tesched_slurm.scontrol_cluster import read_settings

COMMON = (
    "ClusterName             = tesched\nKillWait                = 2 sec\nJobRequeue              = 1\n"
    "MinJobAge               = 300 sec\nPriorityType            = priority/basic\nSLURM_VERSION           = 22.05.8\n"
    "SlurmUser               = slurm(64030)\nPreemptMode             = REQUEUE\n"
)


def plugin(kind: str = "preempt/tesched", parameters: str = "", more: str = "") -> PluginSettings | None:
    """Return the plugin's settings with these SlurmctldParameters."""
    said = f"{COMMON}PreemptType             = {kind}\nSlurmctldParameters     = {parameters}\n{more}"
    return read_settings(said).plugin


@pytest.mark.parametrize("kind", ["preempt/none", "(null)", "preempt/partition_prio"])
def test_another_preemption_has_none(kind: str) -> None:
    assert plugin(kind, "tesched_marks=/x") is None


def test_without_parameters_it_is_as_the_plugin_itself_takes_it() -> None:
    assert plugin() == PluginSettings(
        marks="/run/tesched/marks", owners=frozenset({"root", "slurm"}), mode="REQUEUE", youngest_first=False
    )


def test_what_is_said_to_it_is_read_and_the_first_word_counts() -> None:
    said = "enable_configless,tesched_te_qos=te:debug,Tesched_Marks=/var/m,tesched_marks=/other,tesched_marks_user=ted"
    found = plugin(parameters=f"{said},tesched_te_partition=short")
    assert found is not None
    assert (found.marks, found.owners) == ("/var/m", frozenset({"root", "slurm", "ted"}))
    assert (found.te_qos, found.te_partitions) == (frozenset({"te", "debug"}), frozenset({"short"}))


@pytest.mark.parametrize(
    "line",
    ["SchedulerParameters     = preempt_youngest_first,bf_interval=2", "PreemptParameters       = youngest_first"],
)
def test_youngest_first_is_seen_where_each_release_has_it(line: str) -> None:
    found = plugin(more=f"{line}\n")
    assert found is not None
    assert found.youngest_first


def test_the_folders_of_plugins_are_read() -> None:
    found = plugin(more="PluginDir               = /usr/lib/slurm:/opt/slurm\n")
    assert found is not None
    assert found.folders == ("/usr/lib/slurm", "/opt/slurm")
