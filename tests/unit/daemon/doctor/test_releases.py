"""The doctor on what is known of a release of Slurm."""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import SlurmSettings
from tesched_daemon.doctor.slurm import licenses


@pytest.mark.parametrize(("release", "found"), [("25.05.3", ["warn"]), ("25.11.7", []), ("22.05.8", [])])
def test_a_release_on_which_requeued_jobs_lose_their_licences_is_named(release: str, found: list[str]) -> None:
    findings = list(licenses(SlurmSettings(release=release)))
    assert [one.level for one in findings] == found
    assert all(release in one.text and "25.11.7" in one.advice for one in findings)
