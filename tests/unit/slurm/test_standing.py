"""What polls alone read is as new in an early turn as a poll would have it, or there is none."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.commands_observer import CommandsObserver
from tesched_slurm.sacctmgr_qos import AGE_S

from tests.unit.slurm.answering import Answering
from tests.unit.slurm.test_scontrol_cluster import CONFIG_OF
from tests.unit.slurm.test_scontrol_limits import ENFORCED, HIGH, JOB

LAST = Snapshot.of(1000.0, jobs=[JOB], settings=SlurmSettings(cluster_name="before"))


def observer_of(*answers: str) -> CommandsObserver:
    """Return one whose polls have read limits, and which then gets these answers."""
    observer = CommandsObserver(commands=Answering(answers=[HIGH, *answers]))
    observer._limits.now(ENFORCED, (), [JOB])
    return observer


def config(started: str = "1", enforce: str = "limits") -> str:
    return CONFIG_OF.format(enforce=enforce, started=started)


def test_settings_are_read_once_they_are_as_old_as_a_poll_would_read_them() -> None:
    observer = observer_of(config(), config(started="2", enforce="none"))
    seen = observer.standing(LAST, 3.0)
    assert isinstance(seen, Snapshot)
    assert seen.settings.limits_enforced
    assert seen == replace(LAST, settings=seen.settings)
    assert observer.standing(LAST, 3.0) == seen
    observer._settings.age_s = -1.0
    later = observer.standing(LAST, 3.0)
    assert isinstance(later, Snapshot)
    assert not later.settings.limits_enforced


def test_limits_that_a_poll_would_read_are_left_to_it() -> None:
    fresh = CommandsObserver(commands=Answering(answers=[config()]))
    assert isinstance(fresh.standing(LAST, 3.0), Failure), "no poll has read any"
    observer = observer_of(config())
    assert isinstance(observer.standing(LAST, 3.0), Snapshot)
    observer._limits.age_s = -1.0
    assert isinstance(observer.standing(LAST, 3.0), Failure)


def test_and_so_are_those_that_slurmdbd_has() -> None:
    observer = observer_of(config())
    database, now = observer._limits.in_database, [0.0]
    database.stopwatch = lambda: now[0]
    with_slurmdbd = SlurmSettings(has_slurmdbd=True)
    assert not database.is_due(SlurmSettings()), "there is none"
    assert database.is_due(with_slurmdbd), "not queried yet"
    database._queried_at = 0.0
    assert not database.is_due(with_slurmdbd)
    now[0] = AGE_S + 1
    assert database.is_due(with_slurmdbd)


def test_another_slurmctld_is_the_polls_to_say() -> None:
    observer = observer_of(config("1"), config("2"))
    assert isinstance(observer.standing(LAST, 3.0), Snapshot)
    observer.commands.unanswered["squeue"] += 1
    assert isinstance(observer.standing(LAST, 3.0), Failure)
    assert observer._settings.take_change(), "it is not lost"
