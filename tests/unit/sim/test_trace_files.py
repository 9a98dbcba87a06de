"""Files of traces: of which kind they may be, and how long a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tesched_sim import traces
from tesched_sim.traces import text
from tesched_sim.workload import WorkloadError


def test_a_device_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"^/dev/zero: it is neither a plain file nor a pipe$"):
        traces.read(Path("/dev/zero"))


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_LONGEST_LINE", 100)
    path, longest = tmp_path / "trace", "x" * 100
    path.write_text(f"{longest}\n")
    assert [*text.lines_of(path)] == [(1, longest)]
    path.write_text(f"a\n{longest}xx\n")
    with pytest.raises(WorkloadError, match=f"^{path}:2: a line has more than 100 characters$"):
        list(text.lines_of(path))


def test_a_pipe_is_read() -> None:
    reads, writes = os.pipe()
    os.write(writes, b"a\r\nb")
    os.close(writes)
    try:
        assert [*text.lines_of(Path(f"/dev/fd/{reads}"))] == [(1, "a"), (2, "b")]
    finally:
        os.close(reads)
