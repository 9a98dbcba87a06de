"""The command line of the Docker cluster: `python -m tesched_testcluster docker image`, then up, down, shell, run."""

from __future__ import annotations

import subprocess
import sys

import click

from tesched_testcluster import docker
from tesched_testcluster.docker import DockerCluster
from tesched_testcluster.docker_clients import install_clients
from tesched_testcluster.docker_image import CLIENTS, MAIN, TRIXIE, build_image, run_in_image
from tesched_testcluster.docker_service import DEFAULT_NODES, MOST_NODES, docker_definition
from tesched_testcluster.registry import UnknownClusterError

_DEFAULT_NAME = "default"
_name = click.option("--name", default=_DEFAULT_NAME, show_default=True, help="Name of the cluster.")


@click.group(name="docker")
def docker_commands() -> None:
    """Run a real Slurm 26.05 in containers, or 24.11 in a single one."""


@docker_commands.command()
@click.option("--trixie", is_flag=True, help="That of Slurm 24.11, in which `make test-plugin-24` runs.")
def image(*, trixie: bool) -> None:
    """Build the image where it is missing, and print its tag."""
    click.echo(build_image(TRIXIE if trixie else MAIN))


@docker_commands.command()
def clients() -> None:
    """Install torch, Lightning and Transformers for tests: in an image, and in .clients for jobs on this host."""
    install_clients()


@docker_commands.command()
@_name
@click.option("--nodes", type=click.IntRange(1, MOST_NODES), default=DEFAULT_NODES, show_default=True)
def up(*, name: str, nodes: int) -> None:
    """Start a cluster; it runs until `down`."""
    cluster = DockerCluster(docker_definition(nodes), name=name)
    cluster.up()
    click.echo(f"{name} is up: {nodes} nodes. To use it: {docker.COMMAND} shell --name {name}")


@docker_commands.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="End every Docker cluster.")
def down(name: str | None, every: bool) -> None:
    """End a cluster, and remove all that it left, even where its start had failed."""
    if every and name is not None:
        raise click.UsageError("give either a name or --all")
    known = docker.names()
    for each in known if every else (name if name is not None else _DEFAULT_NAME,):
        if each not in known:
            raise UnknownClusterError(f"no Docker cluster is named {each} (there is: {', '.join(known) or 'none'})")
        DockerCluster(name=each).down()
        click.echo(f"{each} is down")


@docker_commands.command()
@_name
@click.option("--user", default="root", show_default=True, help="root, tesched, alice or bob.")
@click.option("--in", "place", default="slurmctld", show_default=True, help="A service or a node.")
def shell(*, name: str, user: str, place: str) -> None:
    """Open a shell in a container of a cluster."""
    container = DockerCluster.attach(name).container_name(place)
    command = [
        "docker",
        "exec",
        "--interactive",
        "--tty",
        "--user",
        user,
        "--workdir",
        docker.SHARED,
        container,
        "bash",
    ]
    sys.exit(subprocess.run(command, check=False).returncode)


@docker_commands.command(context_settings={"ignore_unknown_options": True})
@click.option("--clients", "with_clients", is_flag=True, help="In the image with torch that `clients` makes.")
@click.option("--trixie", is_flag=True, help="In the image of Slurm 24.11 that `image --trixie` makes.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(*, with_clients: bool, trixie: bool, command: tuple[str, ...]) -> None:
    """Run a command, such as pytest, in a fresh container of the image, on the source as it is here."""
    if with_clients and trixie:
        raise click.UsageError("give either --clients or --trixie")
    sys.exit(run_in_image(*command, image=CLIENTS if with_clients else TRIXIE if trixie else MAIN))
