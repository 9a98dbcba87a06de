"""Reports as a training sends them."""

from __future__ import annotations

import json

#: when the training reported its first loss
START = 1_000_000.0


def report(*losses: float) -> bytes:
    """Return a report of these losses, a second apart."""
    points = [[iteration, loss, START + iteration, None] for iteration, loss in enumerate(losses)]
    whole = {"version": 1, "points": points, "samples": [], "workload": "", "target_loss": None}
    return json.dumps(whole, separators=(",", ":")).encode()
