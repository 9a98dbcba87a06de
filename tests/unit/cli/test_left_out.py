"""Jobs of a state store that are not run again, of which no end was seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tesched_cli.left_out import OfStore
from tesched_core.model.cluster import JobState


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_job_without_an_end_is_left_out_where_it_was_seen_in_these_days(state: JobState) -> None:
    lost = [SimpleNamespace(label=str(at), state=state, gone=True, last_seen=at) for at in (99.0, 100.0)]
    found = OfStore.of((), cast("Any", lost), since=100.0)
    assert [(one.such_as, one.jobs) for one in found.left_out] == [("100.0", 1)]
    assert (found.waited, found.running, found.ran) == ([], [], [])
