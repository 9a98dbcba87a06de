"""A training on which any number of workers work, through a folder on the shared file system. Copy it, and change it.

An iteration is cut into slices. A worker takes the next slice that nobody has, works on it, leaves what came of it in
the folder, and takes another one. Whoever finds all slices of an iteration done adds them up and makes the next
iteration. So workers may come, go and die at any time; what each has to do takes a moment; and the losses are the same
whatever the number of workers is.

    FOLDER/state.npz      the newest iteration: the model, and all losses so far
    FOLDER/12/3           slice 3 of iteration 12 is taken
    FOLDER/12/3.npz       and done

A worker that is told to go (USR1, TERM) ends its slice first. One that is killed leaves its slice taken: after
`lease_s` without a result somebody else takes it. Files come into being by one rename, and a slice is taken by O_EXCL:
both hold on NFS.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tesched_report
from numpy.typing import NDArray

#: arrays by name; "loss" is kept by this file
Arrays = Mapping[str, NDArray[np.float64]]

_STATE = "state.npz"


def work(
    folder: Path,
    *,
    seconds: float,
    slices: int,
    start: Callable[[], Arrays],
    part: Callable[[Arrays, int], Arrays],
    step: Callable[[Arrays, Arrays], Arrays],
    iterations: int,
    lease_s: float = 60.0,
) -> bool:
    """Work on the training for about so many seconds; return whether it is done.

    `start()` is the model at first; `part(model, i)` what slice i of an iteration gives, "loss" among it;
    `step(model, total)` the next model, of what all slices gave, added up. `iterations`: after so many it is done.
    """
    until = time.monotonic() + seconds
    leaving: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: leaving.append(number))
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _STATE).exists():
        _save(folder / _STATE, {**start(), "losses": np.zeros(0)})
    told = -1
    while True:
        model = _load(folder / _STATE)
        losses = model["losses"]
        # What others have brought about is told, too: who comes first with it counts.
        for iteration in range(max(told + 1, len(losses) - 1), len(losses)):
            tesched_report.report(iteration=iteration, loss=float(losses[iteration]))
        told, now = len(losses) - 1, len(losses)
        if now >= iterations:
            return True
        if leaving or time.monotonic() > until:
            return False
        here = folder / str(now)
        here.mkdir(exist_ok=True)
        mine = next((index for index in range(slices) if _take(here / str(index), lease_s)), None)
        if mine is not None:
            _save(here / f"{mine}.npz", part(model, mine))
        if all((here / f"{index}.npz").exists() for index in range(slices)):
            _close(folder, model, now, slices, step)
        elif mine is None:
            time.sleep(0.02)  # the others have the last slices


def _take(claim: Path, lease_s: float) -> bool:
    """Take a slice that is not taken, or was taken long ago without a result."""
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        return True
    except FileExistsError:
        try:
            stale = time.time() - claim.stat().st_mtime > lease_s
        except FileNotFoundError:
            return False
        if not stale or claim.with_suffix(".npz").exists():
            return False
        os.utime(claim)  # two may do it at the same moment, and both come to the same result
        return True
    except FileNotFoundError:
        return False  # the iteration has been closed, and its folder is gone


def _close(folder: Path, model: Arrays, now: int, slices: int, step: Callable[[Arrays, Arrays], Arrays]) -> None:
    """Make the next iteration of all slices; two who do it at the same moment make the same."""
    try:
        parts = [_load(folder / str(now) / f"{index}.npz") for index in range(slices)]
    except FileNotFoundError:
        return  # somebody has, and has cleared up
    if len(_load(folder / _STATE)["losses"]) > now:
        return
    total = {name: np.sum([one[name] for one in parts], axis=0) for name in parts[0]}
    losses = np.append(model["losses"], total["loss"])
    _save(folder / _STATE, {**step(model, total), "losses": losses})
    shutil.rmtree(folder / str(now - 1), ignore_errors=True)


def _load(path: Path) -> dict[str, NDArray[np.float64]]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _save(path: Path, arrays: Arrays) -> None:
    """Write a file in one piece; that the folder is gone means that the iteration is closed."""
    whole: dict[str, Any] = dict(arrays)
    new = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        with new.open("wb") as file:
            np.savez(file, **whole)
        new.rename(path)
    except FileNotFoundError:
        return
