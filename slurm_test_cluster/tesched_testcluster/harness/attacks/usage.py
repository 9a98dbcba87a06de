"""Memory and disk of a daemon, read while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


def resident_mib(pid: int) -> float:
    """Sum the memory of a process and of the programs that it started; 0 where it has ended."""
    total = 0.0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) / 1024
        own = Path(f"/proc/{pid}/cmdline").read_bytes()
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                # Until it runs its program, a child has its parent's memory, which would count twice.
                if Path(f"/proc/{child}/cmdline").read_bytes() != own:
                    total += resident_mib(int(child))
    return total


def store_mib(store: Path) -> float:
    """Sum the sizes of a store's files: SQLite's database and its log."""
    sizes = (path.stat().st_size for path in store.parent.glob(f"{store.name}*"))
    return sum(sizes) / 2**20


@dataclass(kw_only=True)
class Peak:
    """The largest value so far."""

    value: float = 0.0


@contextmanager
def peak_of(measure: Callable[[], float], every_s: float = 0.05) -> Iterator[Peak]:
    """Measure again and again until the block ends."""
    peak, over = Peak(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            peak.value = max(peak.value, measure())
            over.wait(every_s)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()
