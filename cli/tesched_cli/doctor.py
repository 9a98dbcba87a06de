"""`tesched doctor`: is everything in place? One line for each check, with what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from rich.text import Text
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Finding, Severity

from tesched_cli.common import console, json_option, named_config_option
from tesched_cli.json_output import document, print_json

_STYLES = {Severity.OK: "green", Severity.WARN: "yellow", Severity.FAIL: "bold red"}


@document("doctor")
@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorJson:
    """What was found, in the order of the checks."""

    #: how many findings there are, by level
    counts: Mapping[Severity, int]
    findings: tuple[Finding, ...]


@click.command()
@named_config_option
@json_option
def doctor(*, config_path: Path | None, as_json: bool) -> None:
    """Say what stands in the way, and what to do about it.

    It checks the configuration, Slurm, the store and the daemon; nothing is changed. The answers are those for the
    user who asks: run it as the daemon's, as in `runuser -u tesched -- tesched doctor`. Exit status 1 if anything is
    FAIL; 2 if the configuration cannot be read.
    """
    found: list[Finding] = []
    out = console()
    for finding in examine(config_path):
        found.append(finding)
        if not as_json:
            # Each as soon as it is known: a slurmctld that does not answer takes its time.
            for line in _lines(finding):
                out.print(line, soft_wrap=True)
    counts = Counter(finding.level for finding in found)
    if as_json:
        print_json(DoctorJson(counts={level: counts[level] for level in Severity}, findings=tuple(found)))
    else:
        out.print(", ".join(f"{counts[level]} {level.upper()}" for level in Severity))
    if counts[Severity.FAIL]:
        # Where the configuration cannot be read, nothing else is examined: bad input, as for every command.
        raise SystemExit(2 if len(found) == 1 else 1)


def _lines(finding: Finding) -> Iterator[Text]:
    yield Text.assemble((f"{finding.level.upper():<5}", _STYLES[finding.level]), f"{finding.check:<15}{finding.text}")
    if finding.advice:
        yield Text(f"{'':5}{'':15}to do: {finding.advice}")
