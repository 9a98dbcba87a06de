"""A real Slurm in containers: slurmctld, slurmdbd with MariaDB, PostgreSQL, and one container for each node.

    with DockerCluster() as cluster:
        job_id = cluster.sbatch("--qos=be", wrap="sleep 60", user="alice")
        cluster.wait_state(job_id, "RUNNING")
        cluster.cut_network("n1")

Everything runs in one image (slurm_test_cluster/docker/Dockerfile), on the source as it is here, as compose.yaml there
says. A cluster is a compose project; its labels are all that `down` needs to remove every container, network and volume
of it.

Over 400 lines: one class, which starts and breaks the containers of one cluster.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import msgspec
from docker.client import DockerClient
from docker.errors import DockerException

from tesched_testcluster.cluster import Cluster, ClusterError
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.docker_image import FOLDER, MAIN, REPOSITORY
from tesched_testcluster.docker_service import DEFINITION_VARIABLE, NET_VARIABLE, addresses, docker_definition
from tesched_testcluster.patience import HANG_S
from tesched_testcluster.registry import UnknownClusterError, checked_name, fresh_name

#: how a person calls the Docker cluster
COMMAND = "python -m tesched_testcluster docker"
#: the folder that all containers share, where jobs run and write
SHARED = "/shared"

_PROJECT_PREFIX = "tesched-"
_PROJECT_LABEL = "com.docker.compose.project"
_SERVICE_LABEL = "com.docker.compose.service"
#: what `timeout` ends with when time was up
_TIMED_OUT = 124
#: how what `docker exec` says of itself begins
_REFUSED = ("Error response from daemon", "Error: No such")
#: seconds that one call of the engine, and one of compose, may take on any machine; compose waits for health checks
_ENGINE_S, _COMPOSE_S = 600, 1200
#: seconds that a service has to stop in good order, before it is killed and its state is not saved
_STOP_S = 120
#: what every user may do with a folder whose content every user may read
_READABLE = 0o555
_SUBNET_TRIES = 8


class DockerCluster(Cluster):
    """A cluster of containers. A context manager: up on entry, down on exit."""

    def __init__(
        self, definition: ClusterDefinition | None = None, *, name: str | None = None, image: str | None = None
    ) -> None:
        """Make ready; nothing is started yet. `image` is a tag; without one it is that of this checkout.

        ClusterError if no Docker engine answers; ValueError for a definition without accounting or with too many nodes.
        """
        self.definition = definition if definition is not None else docker_definition()
        if self.definition.accounting is None:
            raise ValueError("a Docker cluster has a slurmdbd, so its definition needs accounting")
        self.name = checked_name(name) if name is not None else fresh_name()
        self.image = image if image is not None else MAIN.tag()
        self._project = f"{_PROJECT_PREFIX}{self.name}"
        self._engine = _connect()
        self._addresses = addresses(self.definition)
        self._containers: dict[str, Any] = {}

    @classmethod
    def attach(cls, name: str) -> Self:
        """Return a cluster that is up already, started by this or another process. UnknownClusterError if none is."""
        cluster = cls(name=name)
        slurmctld = cluster._container("slurmctld")
        given = _environment(slurmctld)[DEFINITION_VARIABLE]
        definition = msgspec.json.decode(given, type=ClusterDefinition) if given else None
        return cls(definition, name=name, image=slurmctld.attrs["Config"]["Image"])

    def __enter__(self) -> Self:
        """Start it."""
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.down()

    def up(self) -> None:
        """Start every container and wait until all nodes are idle.

        ClusterError if the image is missing, the name is taken, or the start fails or has no end; nothing is left then.
        """
        if self._left():
            raise ClusterError(f"cluster {self.name} exists already; end it with: {COMMAND} down {self.name}")
        if not image_is_there(self.image):
            raise ClusterError(f"there is no image {self.image}; make it with: {COMMAND} image")
        if REPOSITORY.stat().st_mode & _READABLE != _READABLE:
            raise ClusterError(
                f"containers read the source as other users, too; it must be readable: chmod a+rx {REPOSITORY}"
            )
        try:
            self._compose_up()
            self._await_nodes()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove every container, network and volume of it, however far its start had come; none is no error."""
        self._containers.clear()
        with _engine_errors():
            for container in self._list_containers():
                container.remove(force=True, v=True)
            for kept in (self._engine.networks, self._engine.volumes):
                for each in kept.list(filters=self._filters()):
                    each.remove()

    def execute(self, *args: str, timeout_s: float, user: str | None) -> subprocess.CompletedProcess[str]:
        """Run a command in the shared folder, in slurmctld's container."""
        return self.exec("slurmctld", *args, timeout_s=timeout_s, user=user)

    def exec(
        self, place: str, *args: str, timeout_s: float = HANG_S, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the container of a service or a node, whatever status it ends with.

        subprocess.TimeoutExpired if it takes longer than `timeout_s`; ClusterError if that container does not run.
        """
        limited = ("timeout", "--kill-after=1", f"{timeout_s}", *args)
        # Not `exec_run` of docker's Python: one call in 500 lost what came together with the answer's head.
        where = ("--user", user or "root", "--workdir", SHARED, self.container_name(place))
        done = subprocess.run(["docker", "exec", *where, *limited], capture_output=True, text=True, check=False)
        if done.returncode == _TIMED_OUT:
            raise subprocess.TimeoutExpired(args, timeout_s)
        if done.returncode == 1 and done.stderr.startswith(_REFUSED):
            raise ClusterError(f"Docker: {done.stderr.strip()}")
        return subprocess.CompletedProcess(args, done.returncode, done.stdout, done.stderr)

    def is_answering(self) -> bool:
        """Return whether slurmctld answers."""
        try:
            return self.run("scontrol", "ping", check=False, timeout_s=3).returncode == 0
        except ClusterError:
            return False

    def kill_node(self, name: str) -> None:
        """End a node as a power cut does. Slurm is informed that it is down; it would find out after SlurmdTimeout."""
        with _engine_errors():
            self._node(name).kill()
        self.run("scontrol", "update", f"nodename={name}", "state=down", "reason=killed")

    def revive_node(self, name: str) -> None:
        """Start a killed node again and wait until it is usable."""
        with _engine_errors():
            self._node(name).start()
        self._await_return(name)

    def cut_network(self, name: str) -> None:
        """Take a node, or a service, off the network. A node's jobs run on; Slurm misses it after SlurmdTimeout."""
        with _engine_errors():
            self._network().disconnect(self._container(name), force=True)

    def restore_network(self, name: str) -> None:
        """Put it back on the network, at its old address, and wait until a node is usable."""
        with _engine_errors():
            network = self._network()
            net = network.attrs["IPAM"]["Config"][0]["Subnet"].rpartition(".")[0]
            # tesched has no address of its own: nothing calls it.
            fixed = {"ipv4_address": f"{net}.{self._addresses[name]}"} if name in self._addresses else {}
            network.connect(self._container(name), aliases=[name], **fixed)
        if name in self.definition.node_names:
            self._await_return(name)

    def stop_slurmctld(self) -> None:
        """Stop slurmctld in good order; it saves its state. Jobs go on."""
        with _engine_errors():
            self._container("slurmctld").stop(timeout=_STOP_S)

    def start_slurmctld(self) -> None:
        """Start slurmctld again with the state that it saved, and wait until it answers."""
        with _engine_errors():
            self._container("slurmctld").start()
        self.wait_for(self.is_answering, "slurmctld to answer")

    def restart_postgresql(self) -> None:
        """Stop PostgreSQL in good order, which breaks its connections, start it and wait until it answers."""
        with _engine_errors():
            self._container("postgresql").restart(timeout=_STOP_S)
        self.wait_for(self.postgresql_answers, "PostgreSQL to answer")

    def postgresql_answers(self) -> bool:
        """Return whether PostgreSQL takes connections."""
        return self.exec("postgresql", "pg_isready", "--quiet").returncode == 0

    def start_tesched(self) -> None:
        """Start the service in which tesched runs, as user tesched. ClusterError if its container does not start."""
        variables = _environment(self._container("slurmctld")) | {"TESCHED_IMAGE": self.image}
        done = self._compose(variables, "up", "--detach", "--no-build", "--no-recreate", "tesched")
        self._containers.clear()
        if done.returncode:
            raise ClusterError(f"tesched did not start: {done.stderr.strip()}")

    def stop_tesched(self) -> None:
        """Stop tesched with SIGTERM."""
        with _engine_errors():
            self._container("tesched").stop(timeout=_STOP_S)

    def tesched_log(self) -> str:
        """Return what tesched has logged."""
        with _engine_errors():
            return str(self._container("tesched").logs().decode(errors="replace"))

    def tesched(self, *argv: str, columns: str = "110") -> subprocess.CompletedProcess[str]:
        """Run `tesched argv…` beside the daemon, as its user, for a terminal of so many columns."""
        return self.exec("tesched", "env", f"COLUMNS={columns}", "tesched", *argv, user="tesched")

    def container_name(self, place: str) -> str:
        """Return what Docker calls the container of a service or a node."""
        return str(self._container(place).name)

    def leftovers(self) -> list[str]:
        """Return what is there of this cluster: the names of its containers, networks and volumes."""
        return sorted(each.name for each in self._left())

    def reset(self) -> None:
        """Put a used cluster back, even if slurmctld or nodes were stopped, and empty the shared folder."""
        with _engine_errors():
            slurmctld = self._container("slurmctld")
            slurmctld.reload()
        if slurmctld.status != "running":
            self.start_slurmctld()
        super().reset()
        self.exec("slurmctld", "find", SHARED, "-mindepth", "1", "-delete")

    def _end_job_processes(self) -> None:
        """Leave it to Slurm."""

    def _reset_node(self, name: str) -> None:
        """Start a killed node again, put a cut one back on the network; resume any other."""
        container = self._node(name)
        container.reload()
        if container.status != "running":
            self.revive_node(name)
        elif not container.attrs["NetworkSettings"]["Networks"]:
            self.restore_network(name)
        else:
            self.resume_node(name)

    def _await_return(self, name: str) -> None:
        """Wait until a node that came back has reported to slurmctld and is usable."""
        # A resume before it reports would only make Slurm wait for its next ping.
        self.wait_for(lambda: not _missed(self.node(name)["State"]), f"node {name} to report")
        self.resume_node(name)

    def _compose_up(self) -> None:
        """Let compose start everything, in a network with addresses that no other network has."""
        errors: list[str] = []
        for turn in range(_SUBNET_TRIES):
            second, third = divmod(zlib.crc32(f"{self.name} {turn}".encode()) % (56 * 256), 256)
            variables = {
                "TESCHED_IMAGE": self.image,
                NET_VARIABLE: f"10.{200 + second}.{third}",
                DEFINITION_VARIABLE: msgspec.json.encode(self.definition).decode(),
            }
            done = self._compose(variables, "up", "--detach", "--no-build")
            if done.returncode == 0:
                return
            errors = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower()]
            if "overlaps" not in done.stderr:
                break
        raise ClusterError(f"cluster {self.name} did not start: {'; '.join([*errors, *self._complaints()])}")

    def _await_nodes(self) -> None:
        """Wait until all nodes are idle. ClusterError says what the containers complained of, if they never are."""
        try:
            self.wait_idle()
        except ClusterError as error:
            why = "; ".join([str(error), *self._complaints()])
            raise ClusterError(f"cluster {self.name} did not start: {why}") from error

    def _compose(self, variables: Mapping[str, str], *args: str) -> subprocess.CompletedProcess[str]:
        """Run compose on compose.yaml with this cluster's nodes. ClusterError if there is no compose, or no end."""
        text = compose_text((FOLDER / "compose.yaml").read_text(), self._addresses, self.definition)
        command = ("docker-compose",) if shutil.which("docker-compose") else ("docker", "compose")
        # compose.yaml comes by a pipe, from which compose would take "../.." for another folder.
        fixed = {"TESCHED_SOURCE": str(REPOSITORY), "COMPOSE_HTTP_TIMEOUT": str(_ENGINE_S)}
        options = ("--project-name", self._project, "--project-directory", str(FOLDER), "--file", "-")
        try:
            return subprocess.run(
                [*command, *options, *args],
                input=text,
                env={**os.environ, **fixed, **variables},
                capture_output=True,
                text=True,
                timeout=_COMPOSE_S,
                check=False,
            )
        except FileNotFoundError:
            raise ClusterError("neither docker-compose nor docker's compose is installed") from None
        except subprocess.TimeoutExpired:
            why = "; ".join(["", *self._complaints()])
            raise ClusterError(f"cluster {self.name} did not start in {_COMPOSE_S} s{why}") from None

    def _complaints(self) -> list[str]:
        """Return the containers' last lines of what was fatal, else of what was an error."""
        lines = [
            f"{container.name}: {line}"
            for container in self._list_containers()
            for line in container.logs(tail=200).decode(errors="replace").splitlines()
            if "fatal:" in line or "rror:" in line
        ]
        return [line for line in lines if "fatal:" in line] or lines[-5:]

    def _filters(self) -> dict[str, str]:
        """Return the filter that finds what belongs to this cluster."""
        return {"label": f"{_PROJECT_LABEL}={self._project}"}

    def _list_containers(self) -> list[Any]:
        """Return its containers, stopped ones too."""
        return list(self._engine.containers.list(all=True, filters=self._filters()))

    def _left(self) -> list[Any]:
        """Return its containers, networks and volumes."""
        with _engine_errors():
            engine = self._engine
            kept = (each for kind in (engine.networks, engine.volumes) for each in kind.list(filters=self._filters()))
            return [*self._list_containers(), *kept]

    def _network(self) -> Any:
        """Return its network."""
        return self._engine.networks.list(filters=self._filters())[0]

    def _container(self, place: str) -> Any:
        """Return the container of a service or a node. UnknownClusterError if there is none."""
        if place not in self._containers:
            with _engine_errors():
                self._containers = {each.labels[_SERVICE_LABEL]: each for each in self._list_containers()}
        if place not in self._containers:
            raise UnknownClusterError(f"Docker cluster {self.name} has no container {place}")
        return self._containers[place]

    def _node(self, name: str) -> Any:
        """Return a node's container. ValueError for a name that is none of ours."""
        if name not in self.definition.node_names:
            raise ValueError(f"cluster {self.name} has no node {name}")
        return self._container(name)


def compose_text(text: str, numbers: Mapping[str, int], definition: ClusterDefinition) -> str:
    """Return compose.yaml's text with a line for each node of the definition instead of its own nodes.

    `numbers` gives the last number of each node's address.
    """
    own = [line for line in text.splitlines(keepends=True) if re.match(r"  n\d+: ", line)]
    first = own[0]
    lines = [
        re.sub(r"\bn1\b", name, first).replace(f".{_last_number(first)}", f".{numbers[name]}")
        for name in definition.node_names
    ]
    return text.replace("".join(own), "".join(lines))


def _last_number(line: str) -> str:
    """Return the last number of the address in a node's line."""
    found = re.search(r'\}\.(\d+)"', line)
    if found is None:
        raise ValueError(f"no address in {line!r}")
    return found[1]


def names() -> tuple[str, ...]:
    """Return the names of all Docker clusters of which anything is left, in order."""
    engine = _connect()
    with _engine_errors():
        filters = {"label": _PROJECT_LABEL}
        kept = [*engine.networks.list(filters=filters), *engine.volumes.list(filters=filters)]
        projects = {each.attrs["Labels"][_PROJECT_LABEL] for each in kept}
        projects |= {each.labels[_PROJECT_LABEL] for each in engine.containers.list(all=True, filters=filters)}
    return tuple(sorted(p.removeprefix(_PROJECT_PREFIX) for p in projects if p.startswith(_PROJECT_PREFIX)))


def engine_available() -> bool:
    """Return whether a Docker engine answers."""
    try:
        _connect().close()
    except ClusterError:
        return False
    return True


def image_is_there(image: str) -> bool:
    """Return whether the engine has the image. ClusterError if none answers."""
    with _engine_errors():
        return bool(_connect().images.list(image))


def _missed(state: str) -> bool:
    """Return whether slurmctld hears nothing from a node in this state."""
    return "*" in state or bool({"DOWN", "NOT_RESPONDING"} & set(state.split("+")))


def _environment(container: Any) -> dict[str, str]:
    """Return the environment with which a container was made."""
    return dict(entry.split("=", 1) for entry in container.attrs["Config"]["Env"])


def _connect() -> Any:
    """Return a client of the Docker engine. ClusterError if none answers."""
    try:
        return DockerClient.from_env(timeout=_ENGINE_S)
    except DockerException as error:
        raise ClusterError(f"no Docker engine answers: {error}") from error


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn what the Docker engine refuses into a ClusterError."""
    try:
        yield
    except DockerException as error:
        raise ClusterError(f"Docker: {error}") from error
