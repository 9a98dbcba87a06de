"""What a victim loses of its run, as a policy weighs it.

    L_j = GP_j                                            of a job that is sent its signal: it saves in that time
    L_j = GP_j + the largest m * 2^k not above its run    of any other: all that it did is lost; m is a minute

GP_j of the latter is how long it is expected to take to leave (KillWait, or what was learned). Runs that are lost count
in powers of two: between two that have lasted about as long another rule may decide, such as whose they are or which
is idle (`among_equals.py`), and no run of hours is given up for one of minutes. A shorter run counts as a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesched_core.model.arrays import NDArray, np

if TYPE_CHECKING:
    from tesched_core.model.columns import Running
    from tesched_core.model.resources import UnixSeconds

MINUTE_S = 60.0


def weighed_loss_s(running: Running, now: UnixSeconds) -> NDArray[np.float64]:
    """Return [running] the seconds that each one's loss is worth if it is to leave now."""
    ran_min = np.maximum((now - running.started) / MINUTE_S, 1.0)
    lost: NDArray[np.float64] = MINUTE_S * np.exp2(np.floor(np.log2(ran_min)))
    return running.grace_s + np.where(running.gets_notice, 0.0, lost)
