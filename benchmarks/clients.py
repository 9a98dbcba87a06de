"""Outcome for each kind of job that people submit, when tesched frees resources: `python -m benchmarks.clients`.

On a real Slurm that it starts, beside a daemon in mode enforce with the shipped defaults: each kind of
`tesched_testcluster.kinds` on nodes of its own, and a trial-and-error job for each of those nodes. Printed is what must
happen and what happened. Exit status 1 if one kind is not as it must be. What needs torch is run where
`make test-clients` has installed it; on Slurm 26.05:
`python -m tesched_testcluster docker run --clients -- python -m benchmarks.clients`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click
from rich.table import Table
from tesched_cli.common import console
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.kinds import KINDS, Ending, Kind
from tesched_testcluster.kinds_stage import KindsOnStage, Outcome, torch_bin
from tesched_testcluster.local import LocalCluster

SHIPPED = Path(__file__).parents[1] / "systemd" / "tesched.toml"
NO_TORCH = "not run: torch is not installed for jobs; make test-clients installs it"
#: what the tests' daemon has otherwise than the example
_RESTORED = {"guard": ("min_run_time_s", "cool_down_s"), "classes": ("default_grace_period_s",)}


@click.command()
@click.option("--only", multiple=True, metavar="NAME", help="Only these kinds (the names in --json).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(*, only: tuple[str, ...], as_json: bool) -> None:
    """Run it and print the table."""
    if unknown := set(only) - {kind.name for kind in KINDS}:
        names = ", ".join(kind.name for kind in KINDS)
        raise click.UsageError(f"no kind is named {', '.join(sorted(unknown))}; there are {names}")
    python = torch_bin()
    asked = [kind for kind in KINDS if not only or kind.name in only]
    kinds = [kind for kind in asked if python is not None or not kind.torch]
    release, outcomes = _run(kinds, python) if kinds else ("none", [])
    by_name = {outcome.kind.name: outcome for outcome in outcomes}
    rows = [_row(kind, by_name.get(kind.name)) for kind in asked]
    if as_json:
        print(json.dumps({"slurm": release, "kinds": rows}, indent=2))
    else:
        table = Table(title=f"Slurm {release}", title_justify="left")
        for heading in ("job", "what must happen", "what happened", ""):
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*(str(row[name]) for name in ("job", "must", "happened", "verdict")))
        console().print(table)
    sys.exit(any(row["verdict"] == "WRONG" for row in rows))


def _run(kinds: list[Kind], python: Path | None) -> tuple[str, list[Outcome]]:
    """Return Slurm's release, and what became of each kind."""
    nodes = sum(len(kind.parts) for kind in kinds) + 2
    # KillWait as an untouched slurm.conf has it: it is all the time that a job has which declares no signal.
    definition = ClusterDefinition(name="clients", groups=(NodeGroup(count=nodes, cpus=4),), kill_wait_s=30)
    with (
        tempfile.TemporaryDirectory(prefix="clients-") as scratch,
        LocalCluster(definition) as cluster,
        KindsOnStage(cluster, kinds, python) as stage,
    ):
        folder = Path(scratch)
        _restore_defaults(folder)
        _progress("the jobs begin")
        stage.await_begun()
        with running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=2.0) as daemon:
            _progress("resources are freed")
            stage.preempt()
            stage.await_end()
            outcomes = stage.outcomes(lambda job: daemon.ask("explain", job).stdout)
        return "{}.{:02}".format(*cluster.release), outcomes


def _restore_defaults(folder: Path) -> None:
    """Write a drop-in that puts the shipped defaults back where the tests' daemon has others."""
    shipped = tomllib.loads(SHIPPED.read_text())
    lines = []
    for table, keys in _RESTORED.items():
        lines += [f"[{table}]", *(f"{key} = {shipped[table][key]}" for key in keys)]
    drop_in = folder / "conf.d" / "shipped.toml"
    drop_in.parent.mkdir()
    drop_in.write_text("\n".join(lines) + "\n")


def _row(kind: Kind, outcome: Outcome | None) -> dict[str, str]:
    """Return a kind's row of the table."""
    must = kind.parts if outcome is None else outcome.wanted
    row = {"name": kind.name, "job": kind.row, "must": _endings(must)}
    if outcome is None:
        return row | {"happened": NO_TORCH, "verdict": "not run"}
    if outcome.wrong:
        return row | {"happened": outcome.wrong, "verdict": "WRONG"}
    return row | {"happened": _endings(outcome.happened), "verdict": "as it must"}


def _endings(endings: Mapping[str, Ending]) -> str:
    """Return what became of the jobs of a kind, in words."""
    counts = {ending: list(endings.values()).count(ending) for ending in dict.fromkeys(endings.values())}
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{count}: {ending}" for ending, count in counts.items())


def _progress(what: str) -> None:
    """Say on a terminal what goes on."""
    if sys.stderr.isatty():
        print(f"{what} …", file=sys.stderr)


if __name__ == "__main__":
    main()
