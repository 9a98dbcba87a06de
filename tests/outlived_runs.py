"""Runs that outlived their time limits, for hypothesis: those of a memory."""

from __future__ import annotations

from hypothesis import strategies as st
from tesched_core.model.outlived import Outlived
from tesched_core.model.resources import JobId

_RUNS = st.builds(
    Outlived, job_id=st.integers(1, 2**26).map(JobId), at=st.floats(0, 2**33), user=st.sampled_from(["ada", "bob", "é"])
)
outlived = st.lists(_RUNS, max_size=3, unique_by=lambda one: (one.at, one.job_id)).map(
    lambda some: tuple(sorted(some, key=lambda one: (one.at, one.job_id)))
)
