"""Finding on early turns, where polls take so long that they matter."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_db.views import CycleView

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.early import FROM_S
from tesched_daemon.early_fit import advice, hindrances, said
from tesched_daemon.rate_limited import is_limited

CHECK = "early turns"


def early_turns(config: Config, cycles: tuple[CycleView, ...]) -> Iterator[Finding]:
    """Yield whether the site's settings let them come; `cycles` are the daemon's last ones, the newest first."""
    takes_s = max((one.observe_max_s for one in cycles), default=0.0)
    if takes_s <= FROM_S:
        return
    found = [
        *hindrances(
            mode=config.mode,
            limits=config.guard,
            policies=config.policy.entries(),
            pace=config.loop,
            reads_jobs=not cycles[0].client.startswith("pyslurm"),
            is_limited=is_limited(cycles[0].client),
        )
    ]
    polls = f"polls take up to {takes_s:.0f} s"
    if found:
        yield warn(CHECK, f"{polls}, for which new TE jobs wait: {said(found)}", f"set {advice(found)}")
    else:
        yield ok(CHECK, f"{polls}; a new TE job is served before one")
