"""A munged of one's own: its key, its socket, gone with what started it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tesched_testcluster.patience import HANG_S, Patience


class NoMungeError(Exception):
    """Munge is not installed."""


@contextmanager
def private_munged(folder: Path) -> Iterator[str]:
    """Run a munged in this folder; give the path of its socket. Raises NoMungeError."""
    if not shutil.which("munged"):
        raise NoMungeError("munged is not installed: slurm_test_cluster/install-slurm.sh installs it")
    folder.chmod(0o755)
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {name: folder / name for name in ("socket", "pid-file", "log-file", "seed-file")}
    options = [f"--{name}={path}" for name, path in files.items()]
    process = subprocess.Popen(["munged", "--foreground", "--force", f"--key-file={key}", *options])
    try:
        patience = Patience()
        while not files["socket"].exists():
            assert process.poll() is None, "munged did not start"
            assert not patience.is_over(), "munged did not come"
            time.sleep(0.01)
        yield str(files["socket"])
    finally:
        process.terminate()
        process.wait(HANG_S)
