"""Run each test that is on record as flaky often: `python -m tests.flaky_again` (make test-flaky).

build/flaky.jsonl has the names (`tests/two_passes.py`). A mended test passes each time; then the file goes by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.two_passes import FLAKY, run_alone

TIMES = 20


def names(path: Path = FLAKY) -> list[str]:
    """Return the tests on record, each once, the latest last."""
    if not path.exists():
        return []
    return list(dict.fromkeys(json.loads(line)["test"] for line in path.read_text().splitlines()))


def main() -> int:
    """Run each test so many times and return 1 if one failed."""
    found = names()
    if not found:
        print(f"no test is on record as flaky ({FLAKY})")
        return 0
    passed = {name: sum(run_alone(name) for _ in range(TIMES)) for name in found}
    for name, count in passed.items():
        print(f"{count} of {TIMES} passed: {name}")
    return int(any(count < TIMES for count in passed.values()))


if __name__ == "__main__":
    sys.exit(main())
