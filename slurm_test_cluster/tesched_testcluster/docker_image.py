"""The image of the Docker cluster: made here, and good for running a command in a single container of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tesched_testcluster.cluster import ClusterError

IMAGE = "tesched-test:26.05"
#: the same Slurm, with torch, Lightning and Transformers
CLIENTS_IMAGE = "tesched-clients:26.05"
REPOSITORY = Path(__file__).resolve().parents[2]
#: Slurm 24.11 of Debian trixie, and what builds preempt/tesched for it
TRIXIE_IMAGE = "tesched-test:24.11"
#: where Dockerfile and compose.yaml are
FOLDER = REPOSITORY / "slurm_test_cluster" / "docker"

_VARIABLES = {
    # The repository is mounted read-only.
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",
}


def build_image(image: str = IMAGE, *, target: str = "main", quiet: bool = False) -> None:
    """Make the base image if it is missing, then the image, or bring it up to date. ClusterError if that fails.

    `target` is a stage of the image's Dockerfile.

    What is printed goes to the terminal; with `quiet` only where something fails.
    """
    suite, dockerfile = ("trixie", "Dockerfile.trixie") if image == TRIXIE_IMAGE else ("forky", "Dockerfile")
    for command in (
        [str(FOLDER / "base-image.sh"), suite],
        [
            *("docker", "build", "--file", str(FOLDER / dockerfile)),
            *("--target", target, "--tag", image, str(REPOSITORY)),
        ],
    ):
        done = subprocess.run(command, check=False, capture_output=quiet, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:] if quiet else ""
            raise ClusterError(f"{' '.join(command)} ended with status {done.returncode} {said}".rstrip())


def run_in_image(*args: str, image: str = IMAGE, timeout_s: float | None = None) -> int:
    """Run a command in a fresh container of the image, on the source as it is here, and return its status.

    The repository is mounted read-only in place of the image's copy. What the command prints goes to the terminal.
    subprocess.TimeoutExpired if it takes longer than `timeout_s`; the container is gone then, too.
    """
    limit = [] if timeout_s is None else ["timeout", "--kill-after=5", f"{timeout_s}"]
    variables = [f"--env={name}={value}" for name, value in _VARIABLES.items()]
    mount = f"--volume={REPOSITORY}:/opt/tesched:ro"
    command = ["docker", "run", "--rm", "--init", "--cap-add=SYS_ADMIN", mount, *variables, image, *limit, *args]
    status = subprocess.run(command, check=False).returncode
    if timeout_s is not None and status == 124:  # what `timeout` ends with
        raise subprocess.TimeoutExpired(args, timeout_s)
    return status
