"""The images of the Docker cluster: made here, and good for running a command in a single container of one.

An image's tag ends with a hash of what it is built from, so that one that is there is the right one, and two checkouts
with different Dockerfiles have two images. tesched's source is in none: it is mounted.
"""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tesched_testcluster.cluster import ClusterError

REPOSITORY = Path(__file__).resolve().parents[2]
#: where Dockerfile and compose.yaml are
FOLDER = REPOSITORY / "slurm_test_cluster" / "docker"
#: the source's place in a container
MOUNT = "/opt/tesched"

_VARIABLES = {
    # The repository is mounted read-only.
    "PYTHONPYCACHEPREFIX": "/tmp/pycache",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "HYPOTHESIS_STORAGE_DIRECTORY": "/tmp/hypothesis",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A stage of a Dockerfile."""

    #: with the release of its Slurm
    name: str
    #: of Debian
    suite: str
    target: str
    #: the Dockerfile, and every file of the repository that this stage or one before it copies
    inputs: tuple[str, ...]

    @property
    def dockerfile(self) -> str:
        """Return its path in the repository."""
        return self.inputs[0]

    def tag(self, repository: Path = REPOSITORY) -> str:
        """Return its name with the hash of what it is built from."""
        found = hashlib.sha256()
        for path in (*self.inputs, _BASE_IMAGE):
            content = (repository / path).read_bytes()
            found.update(f"{path} {len(content)}\n".encode() + content)
        return f"{self.name}-{found.hexdigest()[:12]}"


_BASE_IMAGE = "slurm_test_cluster/docker/base-image.sh"
MAIN = Image(
    name="tesched-test:26.05",
    suite="forky",
    target="main",
    inputs=(
        "slurm_test_cluster/docker/Dockerfile",
        "slurm_test_cluster/docker/pyslurm-requirement.txt",
        "slurm_test_cluster/docker/pyslurm-compat.h",
        "requirements.lock",
        "pyproject.toml",
    ),
)
#: the same Slurm, with torch, Lightning and Transformers
CLIENTS = Image(
    name="tesched-clients:26.05",
    suite="forky",
    target="clients",
    inputs=(*MAIN.inputs, "requirements-clients.lock"),
)
#: Slurm 24.11 of Debian trixie, and what builds preempt/tesched for it
TRIXIE = Image(
    name="tesched-test:24.11",
    suite="trixie",
    target="main",
    inputs=(
        "slurm_test_cluster/docker/Dockerfile.trixie",
        "slurm_plugin/debian-source.sh",
        "requirements.lock",
        "pyproject.toml",
    ),
)


def build_image(image: Image = MAIN, *, quiet: bool = False) -> str:
    """Make an image that is missing, and its base image before it; return its tag. ClusterError if that fails.

    What is printed goes to the terminal; with `quiet` only where a step fails.
    """
    tag = image.tag()
    if subprocess.run(["docker", "image", "inspect", tag], check=False, capture_output=True).returncode == 0:
        return tag
    for command in (
        [str(REPOSITORY / _BASE_IMAGE), image.suite],
        [
            *("docker", "build", "--file", str(REPOSITORY / image.dockerfile)),
            *("--target", image.target, "--tag", tag, str(REPOSITORY)),
        ],
    ):
        done = subprocess.run(command, check=False, capture_output=quiet, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr)[-2000:] if quiet else ""
            raise ClusterError(f"{' '.join(command)} ended with status {done.returncode} {said}".rstrip())
    return tag


def run_in_image(*args: str, image: Image = MAIN, timeout_s: float | None = None) -> int:
    """Run a command in a fresh container of the image, on the source as it is here, and return its status.

    What the command prints goes to the terminal. subprocess.TimeoutExpired if it takes longer than `timeout_s`; the
    container is gone then, too.
    """
    limit = [] if timeout_s is None else ["timeout", "--kill-after=5", f"{timeout_s}"]
    variables = [f"--env={name}={value}" for name, value in _VARIABLES.items()]
    mount = f"--volume={REPOSITORY}:{MOUNT}:ro"
    command = ["docker", "run", "--rm", "--init", "--cap-add=SYS_ADMIN", mount, *variables, image.tag(), *limit, *args]
    status = subprocess.run(command, check=False).returncode
    if timeout_s is not None and status == 124:  # what `timeout` ends with
        raise subprocess.TimeoutExpired(args, timeout_s)
    return status
