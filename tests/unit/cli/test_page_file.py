"""Paths of pages: a write that would not end, or is none of a file, is refused before anything is run."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tesched_cli.page_file import PageFileError, check_folder, check_page, write_file


@pytest.mark.parametrize("check", [check_folder, check_page])
def test_a_path_of_another_kind_is_refused_at_once(check: object, tmp_path: Path) -> None:
    assert callable(check)
    fifo, end = tmp_path / "fifo", tmp_path / "socket"
    os.mkfifo(fifo)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(end))
        for path in (fifo, end, tmp_path):
            with pytest.raises(PageFileError, match=f"^{path}: this is no plain file; name another one$"):
                check(path)
    link = tmp_path / "link.html"
    link.symlink_to(fifo)
    with pytest.raises(PageFileError, match="no plain file"):
        check(link)


def test_a_file_a_device_and_a_pipe_of_the_shells_are_written(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    try:
        for path in (tmp_path / "new.html", Path("/dev/null"), Path(f"/dev/fd/{writes}")):
            check_page(path)
            write_file(path, "<!doctype html>")
            check_page(path)
        assert os.read(reads, 100) == (tmp_path / "new.html").read_bytes() == b"<!doctype html>"
    finally:
        os.close(reads)
        os.close(writes)
