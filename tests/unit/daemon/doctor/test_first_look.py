"""The doctor on when victims are notified."""

from __future__ import annotations

from typing import Literal

import pytest
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.limits import Limits
from tesched_daemon.config import Config
from tesched_daemon.doctor.first_look import first_look

FREE = SlurmSettings(limits_enforced=False)
ENFORCED = SlurmSettings(enforced=frozenset({"associations", "limits"}))


@pytest.mark.parametrize(
    ("said", "settings", "level", "text"),
    [
        ("auto", FREE, "ok", "at once: slurm.conf enforces no limits"),
        ("auto", ENFORCED, "ok", "where no limit can keep the TE job, else after Slurm's word"),
        ("auto", SlurmSettings(limits_enforced=False, has_burst_buffers=True), "ok", "BurstBufferType"),
        (True, FREE, "ok", "wait for Slurm's word"),
        (False, FREE, "ok", "at once"),
        (False, ENFORCED, "warn", "AccountingStorageEnforce=associations,limits"),
    ],
)
def test_it_says_when_victims_are_notified(
    *, said: Literal["auto"] | bool, settings: SlurmSettings, level: str, text: str
) -> None:
    found = first_look(Config(guard=Limits(await_first_look=said)), settings)
    assert (found.level, text in found.text) == (level, True), found.text
