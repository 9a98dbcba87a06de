"""`tesched throughputs`: how fast workloads go on which accelerators, from a file and from what jobs report."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import click
from tesched_core.model.job_report import LARGEST, LONGEST_NAME
from tesched_db import deeds, reports
from tesched_db.reports import Throughput

from tesched_cli.common import (
    changing_config_option,
    clock,
    config_option,
    console,
    json_option,
    say,
    store,
    table,
    writable_store,
)
from tesched_cli.json_output import document, print_json
from tesched_cli.report import BadFileError

#: Largest file that is read, bytes: Gavel's own has 1.2 MB.
_LARGEST_FILE = 64 << 20
_COLUMNS = ("workload", "accelerator", "steps_per_s")
_MORE = ("scale", "partner", "partner_scale")
#: Gavel's key of a job: ('ResNet-18 (batch size 16)', 1)
_KEY = re.compile(r"\('([^']*)', (\d{1,6})\)")


@click.group()
def throughputs() -> None:
    """Show or set how fast workloads go on which accelerators."""


@throughputs.command("import")
@changing_config_option
@click.argument("file", type=click.Path(path_type=Path))
def import_(config_path: Path, *, file: Path) -> None:
    """Take speeds from FILE, which hold for all users.

    They take the place of those of the file before. FILE is CSV with a head line (`workload`, `accelerator`,
    `steps_per_s`; if you like, `scale`, `partner` and `partner_scale`), or JSON in the form of Gavel's throughput
    files.
    """
    speeds = read(file)
    with writable_store(config_path) as engine:
        reports.replace_throughputs(engine, speeds)
        deeds.record(engine, f"throughputs import: {len(speeds)} from {file}")
    alone = sum(not speed.partner for speed in speeds)
    say(f"{len(speeds)} throughputs from {file}: {alone} alone, {len(speeds) - alone} beside another workload")


@document("throughputs list")
@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputsJson:
    """Speeds that are known."""

    throughputs: tuple[Throughput, ...]


@throughputs.command("list")
@config_option
@click.option("--user", help="Of this user's jobs alone.")
@json_option
def list_(config_path: Path, *, user: str | None, as_json: bool) -> None:
    """List them, those of an admin's file first."""
    with store(config_path) as engine:
        found = reports.throughputs(engine, user=user)
    if as_json:
        print_json(ThroughputsJson(throughputs=found))
        return
    shown = table("USER~", "WORKLOAD~", "SCALE>", "ACCELERATOR~", "STEPS/S>", "SAMPLES>", "AT", "BESIDE~")
    for one in found:
        beside = f"{one.partner} ({one.partner_scale})" if one.partner else ""
        words = (one.user or "(file)", one.workload, str(one.scale), one.accelerator, f"{one.steps_per_s:.4g}")
        shown.add_row(*words, str(one.samples), clock(one.at), beside)
    console().print(shown)


def read(file: Path) -> list[Throughput]:
    """Return the speeds in a file. Raises BadFileError, which names the file and the line or the key."""
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise BadFileError(f"{file}: it is larger than {_LARGEST_FILE >> 20} MB")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise BadFileError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFileError(f"{file}: byte {error.start + 1} is no UTF-8") from error
    found: dict[tuple[str, int, str, str, int], Throughput] = {}
    rows = _of_json(file, text) if text.lstrip().startswith("{") else _of_csv(file, text)
    for where, speed in rows:
        key = (speed.workload, speed.scale, speed.accelerator, speed.partner, speed.partner_scale)
        if key in found:
            raise BadFileError(f"{file}: {where}: {speed.workload!r} on {speed.accelerator} stands there twice")
        found[key] = speed
    if not found:
        raise BadFileError(f"{file}: there is no throughput in it")
    return list(found.values())


def _of_csv(file: Path, text: str) -> Iterator[tuple[str, Throughput]]:
    lines = csv.DictReader(text.splitlines())
    head = [name.strip() for name in lines.fieldnames or ()]
    lines.fieldnames = head
    unknown = [name for name in head if name not in {*_COLUMNS, *_MORE}]
    missing = [name for name in _COLUMNS if name not in head]
    if unknown or missing:
        what = f"no column {missing[0]}" if missing else f"the unknown column {unknown[0]!r}"
        raise BadFileError(f"{file}: line 1: {what}; known are {', '.join((*_COLUMNS, *_MORE))}")
    try:
        for line in lines:
            where = f"line {lines.line_num}"
            partner = (line.get("partner") or "").strip()
            yield (
                where,
                _speed(
                    f"{file}: {where}",
                    workload=line["workload"],
                    scale=line.get("scale") or "1",
                    accelerator=line["accelerator"],
                    partner=partner,
                    partner_scale=line.get("partner_scale") or ("1" if partner else "0"),
                    steps_per_s=line["steps_per_s"],
                ),
            )
    except csv.Error as error:
        raise BadFileError(f"{file}: line {lines.line_num}: {error}") from error


def _of_json(file: Path, text: str) -> Iterator[tuple[str, Throughput]]:
    """Yield what stands in a file of the form {type: {key: {"null": alone, other key: [own, the other's]}}}."""
    try:
        types = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{file}: no JSON: {error}") from error
    for accelerator, workloads in _table(f"{file}: it", types):
        for key, speeds in _table(f"{file}: {accelerator}", workloads):
            where = f"{accelerator}.{key}"
            workload, scale = _key(f"{file}: {where}", key)
            for other, value in _table(f"{file}: {where}", speeds):
                partner, partner_scale = ("", "0") if other == "null" else _key(f"{file}: {where}.{other}", other)
                own = value[0] if isinstance(value, list) and len(value) == 2 and partner else value
                yield (
                    f"{where}.{other}",
                    _speed(
                        f"{file}: {where}.{other}",
                        workload=workload,
                        scale=scale,
                        accelerator=accelerator,
                        partner=partner,
                        partner_scale=partner_scale,
                        steps_per_s=own,
                    ),
                )


def _table(where: str, value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise BadFileError(f"{where} must be a table of Gavel's form: type, workload, 'null' or partner")
    yield from value.items()


def _key(where: str, key: str) -> tuple[str, str]:
    found = _KEY.fullmatch(key)
    if not found:
        raise BadFileError(f"{where}: must be of the form ('workload', scale)")
    return found[1], found[2]


def _speed(
    where: str,
    *,
    workload: str | None,
    scale: str,
    accelerator: str | None,
    partner: str,
    partner_scale: str,
    steps_per_s: object,
) -> Throughput:
    for name, text in (("workload", workload), ("accelerator", accelerator), ("partner", partner)):
        if (
            text is None
            or len(text) > LONGEST_NAME
            or not text.isprintable()
            or not (text.strip() or name == "partner")
        ):
            raise BadFileError(f"{where}: {name} must be a text of 1 to {LONGEST_NAME} printable characters")
    for name, text, least in (("scale", scale, 1), ("partner_scale", partner_scale, 1 if partner else 0)):
        if not re.fullmatch(r"\d{1,6}", text.strip()) or int(text) < least:
            raise BadFileError(f"{where}: {name} must be a whole number of at least {least}, not {text!r}")
    try:
        speed = float(str(steps_per_s))
    except ValueError:
        speed = -1.0
    if not isfinite(speed) or not 0 <= speed <= LARGEST:
        raise BadFileError(f"{where}: steps_per_s must be a number of at least 0, not {str(steps_per_s)[:40]!r}")
    return Throughput(
        workload=(workload or "").strip(),
        scale=int(scale),
        accelerator=(accelerator or "").strip(),
        partner=partner.strip(),
        partner_scale=int(partner_scale),
        steps_per_s=speed,
        at=time.time(),
    )
