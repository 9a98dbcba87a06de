"""The command line of the local test cluster: `python -m tesched_testcluster up`, and then down, env, status, load."""

from __future__ import annotations

import random
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import click

from tesched_testcluster import registry
from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, Scheduling
from tesched_testcluster.docker_commands import docker_commands
from tesched_testcluster.load import EVENTS, LoadJob, Mix, OnNotice, count_events, plan, read_events, submit_load
from tesched_testcluster.local import LocalCluster

_DEFAULT_NAME = "default"
#: folder of a load's files in the cluster's shared folder
_LOAD_FOLDER = "load"


class _Commands(click.Group):
    """Turns what went wrong into one line on stderr: exit status 2 for bad input, 1 for a cluster that fails."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (registry.UnknownClusterError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        except ClusterError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands)
def main() -> None:
    """Run a real Slurm on this host, for tests and for trying things out."""


main.add_command(docker_commands)


@main.command()
@click.option(
    "--on",
    "where",
    type=click.Choice(("auto", "docker", "local")),
    default="auto",
    show_default=True,
    help="Containers, this host, or containers where a Docker engine answers.",
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw what happened into this file (.svg); the record of it is kept beside it (.json).",
)
def demo(*, where: str, picture: Path | None) -> None:
    """Show tesched's main job on a cluster of its own."""
    # It needs tesched itself, which the cluster's other commands do not.
    from tesched_testcluster import demo_picture, demo_record  # noqa: PLC0415
    from tesched_testcluster.demo import Where, run_demo  # noqa: PLC0415

    if picture is not None and (picture.suffix != ".svg" or not picture.parent.is_dir()):
        raise click.UsageError(f"--picture {picture}: give a file that ends in .svg, in a folder that is there")
    record = run_demo(Where(where))
    if picture is not None:
        demo_record.write(record, picture.with_suffix(".json"))
        picture.write_text(demo_picture.draw(record), encoding="utf-8")
        click.echo(f"drawn: {picture}; its record: {picture.with_suffix('.json')}")


@main.command()
@click.argument("record", type=click.Path(dir_okay=False, path_type=Path))
def draw(*, record: Path) -> None:
    """Draw the picture of a demo again, from the RECORD (.json) beside it."""
    from tesched_testcluster import demo_picture, demo_record  # noqa: PLC0415

    picture = record.with_suffix(".svg")
    picture.write_text(demo_picture.draw(demo_record.read(record)), encoding="utf-8")
    click.echo(f"drawn: {picture}")


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def pictures(*, folder: Path) -> None:
    """Make the pictures of web and top in FOLDER (web-*.png, top-*.svg), from two minutes on a cluster of its own."""
    from tesched_testcluster.harness.pictures import make_pictures  # noqa: PLC0415 - needs tesched and Selenium

    for path in make_pictures(folder):
        click.echo(f"made: {path}")


@main.command()
@click.option("--name", default=_DEFAULT_NAME, show_default=True, help="Name of the cluster.")
@click.option("--nodes", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option("--cpus", type=click.IntRange(2, 1024), default=32, show_default=True, help="CPUs of a node (even).")
@click.option("--mem-mib", type=click.IntRange(1), default=256_000, show_default=True, help="Memory of a node.")
@click.option("--gpus", type=click.IntRange(0, 64), default=8, show_default=True, help="GPUs of a node.")
@click.option(
    "--scheduling",
    type=click.Choice(get_args(Scheduling)),
    default="fast",
    show_default=True,
    help="Slurm's own timings: fast starts a job within a second, stock and large_site are what sites have.",
)
def up(*, name: str, nodes: int, cpus: int, mem_mib: int, gpus: int, scheduling: Scheduling) -> None:
    """Start a cluster; it runs until `down`."""
    group = NodeGroup(count=nodes, cpus=cpus, mem_mib=mem_mib, gres={"gpu": gpus} if gpus else {})
    cluster = LocalCluster(ClusterDefinition(groups=(group,), scheduling=scheduling), name=name)
    cluster.up()
    click.echo(f"{name} is up: {group.hostlist}, Slurm {cluster.release[0]}.{cluster.release[1]:02}")
    click.echo(f"To use it: export SLURM_CONF={shlex.quote(str(cluster.slurm_conf))}")


@main.command()
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="End every cluster of this user.")
def down(name: str | None, every: bool) -> None:
    """End a cluster, and remove all that it left, even where its start had failed."""
    if every and name is not None:
        raise click.UsageError("give either a name or --all")
    wanted = registry.names() if every else (name if name is not None else _DEFAULT_NAME,)
    for each in wanted:
        cluster = LocalCluster(name=each)
        if not cluster.folder.exists():
            raise registry.UnknownClusterError(f"no cluster is named {each}")
        cluster.down()
        click.echo(f"{each} is down")


@main.command()
@click.argument("name", default=_DEFAULT_NAME)
def env(name: str) -> None:
    """Print what a shell must set to use a cluster: eval "$(python -m tesched_testcluster env)"."""
    click.echo(f"export SLURM_CONF={shlex.quote(str(LocalCluster.attach(name).slurm_conf))}")


@main.command()
@click.argument("name", required=False)
def status(name: str | None) -> None:
    """Say how a cluster is; without NAME, which clusters there are."""
    if name is None:
        for each in registry.names():
            click.echo(f"{each}: {'up' if LocalCluster.attach(each).is_answering() else 'does not answer'}")
        return
    cluster = LocalCluster.attach(name)
    click.echo(f"{name}: Slurm {cluster.release[0]}.{cluster.release[1]:02}, {cluster.slurm_conf}")
    click.echo(f"nodes: {_tally(cluster.node_states().values())}")
    click.echo(f"jobs: {_tally(cluster.run('squeue', '-h', '-r', '-o', '%T').stdout.split())}")
    events = count_events(read_events(cluster.shared / _LOAD_FOLDER))
    if events:
        click.echo(f"what the load's jobs wrote: {', '.join(f'{count} {event}' for event, count in events.items())}")


@main.command()
@click.option("--name", default=_DEFAULT_NAME, show_default=True, help="Name of the cluster.")
@click.option("--seed", type=int, required=True, help="The same seed gives the same jobs.")
@click.option("--be", "be_count", type=click.IntRange(0), default=24, show_default=True, help="Best-effort jobs.")
@click.option("--te", "te_count", type=click.IntRange(0), default=12, show_default=True, help="Trial-and-error jobs.")
@click.option(
    "--over", "te_span_s", type=click.FloatRange(0), default=30, show_default=True, help="Seconds of te jobs."
)
@click.option(
    "--on-notice",
    type=click.Choice(get_args(OnNotice)),
    multiple=True,
    default=("unaware",),
    show_default=True,
    help="What a best-effort job does on USR1; unaware: an ordinary script, which declares no signal. Each draws one.",
)
@click.option("--wait", "wait_s", type=click.FloatRange(0), help="Wait up to this many seconds for all jobs to end.")
def load(
    *,
    name: str,
    seed: int,
    be_count: int,
    te_count: int,
    te_span_s: float,
    on_notice: tuple[OnNotice, ...],
    wait_s: float | None,
) -> None:
    """Submit best-effort and trial-and-error jobs (named be-001, te-001, ...), drawn from a seed."""
    cluster = LocalCluster.attach(name)
    mix = Mix(be_count=be_count, te_count=te_count, te_span_s=te_span_s, on_notice=on_notice)
    folder = cluster.shared / _LOAD_FOLDER
    folder.mkdir(exist_ok=True)
    # Not for secrets: the seed is there to get the same jobs again.
    jobs = plan(mix, random.Random(seed))  # noqa: S311

    def tell(job: LoadJob, job_id: int) -> None:
        click.echo(f"{job_id} {job.name}: {job.gpus} GPUs, {job.ticks * job.tick_s:g} s of work")

    submit_load(cluster, jobs, folder, progress=tell)
    click.echo(f"events are in {folder / EVENTS}")
    if wait_s is not None:
        cluster.wait_for(
            lambda: not cluster.run("squeue", "-h", "-o", "%i").stdout.strip(), "all jobs to end", timeout_s=wait_s
        )
        counts = count_events(read_events(folder))
        click.echo(", ".join(f"{count} {event}" for event, count in counts.items()))


def _tally(words: Iterable[str]) -> str:
    """Return how often each word comes: `7 idle, 1 mixed`."""
    counts = Counter(words)
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"


if __name__ == "__main__":
    main()
