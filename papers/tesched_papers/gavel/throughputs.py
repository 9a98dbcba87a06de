"""The speeds that Gavel's authors measured: 26 models and batch sizes, alone and in pairs, on three types of GPU.

The file in the package is theirs (MIT, LICENSE-throughputs.txt beside it), as is its form, so one reader serves for
both: {GPU type: {"('<model>', <scale factor>)": {"null": steps/s alone, "('<other>', <scale factor>)": [mine, its]}}}.
The speed is that of all GPUs of the job together. 0 is a job that does not fit.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tesched_sim.workload import WorkloadError

#: GPU types, in the order of every array's last axis
TYPES = ("v100", "p100", "k80")
_KEY = re.compile(r"\('([^']+)', (\d+)\)")
_ALONE = "null"

#: a model with its batch size, and how many GPUs it runs on
JobType = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughputs:
    """The table, by job type."""

    #: row of each job type
    row: Mapping[JobType, int]
    #: (rows, types), steps/s alone; 0: it does not fit
    alone: NDArray[np.float64]
    #: (rows, rows, types), steps/s of the first when it shares its GPUs with the second; 0: they do not fit
    paired: NDArray[np.float64]


def read(path: Path) -> Throughputs:
    """Return the table of a file, packed (`.gz`) or not. Raises WorkloadError that names the file and the key."""
    try:
        packed = path.read_bytes()
        text = gzip.decompress(packed) if path.suffix == ".gz" else packed
        found = json.loads(text)
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: is not JSON: {error}") from None
    return _Reader(path, found).table()


@lru_cache(maxsize=1)
def measured() -> Throughputs:
    """Return the authors' table, which the package brings."""
    with as_file(files("tesched_papers.gavel") / "throughputs.json.gz") as path:
        return read(path)


class _Reader:
    def __init__(self, path: Path, found: object) -> None:
        self.path = path
        self.types = [self._object(self._object(found, ""), name) for name in TYPES]
        self.row = {self._job_type(key, f"{TYPES[0]}: "): index for index, key in enumerate(self.types[0])}

    def table(self) -> Throughputs:
        count = len(self.row)
        alone = np.zeros((count, len(TYPES)))
        paired = np.zeros((count, count, len(TYPES)))
        for place, (name, jobs) in enumerate(zip(TYPES, self.types, strict=True)):
            if len(jobs) != count:
                raise self._wrong(f"{name}: there are {len(jobs)} jobs, {TYPES[0]} has {count}")
            for key in jobs:
                mine = self._known(key, f"{name}: ")
                for other, value in self._object(jobs, key, f"{name}: ").items():
                    where = f"{name}: {key}: {other}"
                    if other == _ALONE:
                        alone[mine, place] = self._speed(value, where)
                    else:
                        theirs = self._known(other, f"{name}: {key}: ")
                        paired[mine, theirs, place] = self._speeds(value, where)[0]
                if _ALONE not in jobs[key]:  # type: ignore[operator]  # it is an object, as was just seen
                    raise self._wrong(f"{name}: {key}: its speed alone ({_ALONE}) is missing")
        return Throughputs(row=self.row, alone=alone, paired=paired)

    def _known(self, key: str, where: str) -> int:
        found = self.row.get(self._job_type(key, where))
        if found is None:
            raise self._wrong(f"{where}{key}: {TYPES[0]} has no such job")
        return found

    def _job_type(self, key: str, where: str) -> JobType:
        found = _KEY.fullmatch(key)
        if found is None or int(found[2]) < 1:
            raise self._wrong(f"{where}{key}: a job is written ('model', scale factor)")
        return found[1], int(found[2])

    def _object(self, value: object, key: str, where: str = "") -> dict[str, object]:
        if key:
            if not isinstance(value, dict) or key not in value:
                raise self._wrong(f"{where}{key} is missing")
            value = value[key]
        if not isinstance(value, dict):
            raise self._wrong(f"{where}{key or 'it'} is no object")
        return value

    def _speed(self, value: object, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise self._wrong(f"{where}: {value!r} is no speed in steps/s")
        return float(value)

    def _speeds(self, value: object, where: str) -> tuple[float, float]:
        if not isinstance(value, list) or len(value) != 2:
            raise self._wrong(f"{where}: {value!r} is not two speeds in steps/s")
        return self._speed(value[0], where), self._speed(value[1], where)

    def _wrong(self, what: str) -> WorkloadError:
        return WorkloadError(f"{self.path}: {what}")
