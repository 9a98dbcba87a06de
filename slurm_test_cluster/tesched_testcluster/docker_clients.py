"""torch, Lightning and Transformers for tests: an image with them, and a `python` with them for jobs on this host.

PyPI's torch for Linux brings 2 GB for GPUs. Debian's is for CPUs, but that of an old release is too old for today's
clients. So Debian's newest is installed in an image, and unpacked from there for the host: its Python runs on any Linux
by its own loader and libraries.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.docker_image import CLIENTS, REPOSITORY, build_image

#: where the host's is; `bin` in it belongs into the PATH of a job
CLIENTS_FOLDER = REPOSITORY / ".clients"
#: of the image's files what a Python with torch needs
_PARTS = ("usr/lib", "usr/lib64", "usr/bin", "opt/clients/lib")
_LEFT_OUT = tuple(
    f"usr/lib/{name}"
    for name in ("*/libLLVM*", "*/libamd*", "*/mariadb", "*/perl*", "*/slurm-wlm", "llvm*", "postgresql")
)
_PYTHON = """#!/bin/sh
# The image's Python, by its own loader and libraries.
root='{root}'
export PYTHONPATH="$root/{site}"
exec "$root/{loader}" --argv0 "$root/{python}" --library-path '{libraries}' "$root/{python}" "$@"
"""


def install_clients() -> None:
    """Make the image, or bring it up to date, and the host's folder from it. ClusterError if that fails."""
    build_image()
    layers = _docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", build_image(CLIENTS))
    stamp = CLIENTS_FOLDER / "made-from"
    if stamp.exists() and stamp.read_text() == layers:
        return
    shutil.rmtree(CLIENTS_FOLDER, ignore_errors=True)
    root = CLIENTS_FOLDER / "root"
    root.mkdir(parents=True)
    _unpack(root)
    _write_python(root)
    stamp.write_text(layers)


def _docker(*args: str) -> str:
    """Return what a docker command says. ClusterError if it fails."""
    done = subprocess.run(["docker", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"docker {' '.join(args)} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def _unpack(root: Path) -> None:
    """Copy the image's parts."""
    container = _docker("create", CLIENTS.tag())
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
            left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
            unpack = ["tar", "-x", "-C", str(root), *left_out, *_PARTS]
            done = subprocess.run(unpack, stdin=export.stdout, capture_output=True, text=True, check=False)
        if done.returncode or export.returncode:
            raise ClusterError(f"the files of {CLIENTS.tag()} cannot be unpacked: {done.stderr.strip()[-500:]}")
    finally:
        _docker("rm", container)


def _write_python(root: Path) -> None:
    """Write `bin/python`, and `bin/python3`, which is the same. ClusterError if the image is not as it was."""

    def find(pattern: str) -> Path:
        found = sorted(path for path in root.glob(pattern) if path.is_file() or path.is_dir())
        if not found:
            raise ClusterError(f"there is no {pattern} in {CLIENTS.tag()}")
        return found[0]

    libc = find("usr/lib/*/libc.so.6").parent
    libraries = (libc, root / "usr/lib", libc / "blas", libc / "lapack")
    folder = CLIENTS_FOLDER / "bin"
    folder.mkdir()
    for name in ("python", "python3"):
        wrapper = folder / name
        wrapper.write_text(
            _PYTHON.format(
                root=root,
                site=find("opt/clients/lib/python3.*/site-packages").relative_to(root),
                loader=find("usr/lib*/ld-linux*.so.*").relative_to(root),
                python=find("usr/bin/python3.*[0-9]").relative_to(root),
                libraries=":".join(map(str, libraries)),
            )
        )
        wrapper.chmod(0o755)
