"""Payment: what one preemption cost one job, and for which TE job."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.order import Purpose
from tesched_core.model.resources import JobId, UnixSeconds

HOUR_S = 3600.0
DAY_S = 86_400.0


def lost_s(
    ran_s: NDArray[np.float64] | float, after_s: NDArray[np.float64] | float, *, saves: NDArray[np.bool_] | bool
) -> NDArray[np.float64]:
    """Seconds of each run that are counted as lost, [runs].

    `ran_s` is its run up to its notice, `after_s` what it runs after that; `saves`: it is sent the signal it declared.
    """
    lost: NDArray[np.float64] = after_s + np.where(saves, 0.0, np.maximum(ran_s, 0.0))
    return lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """One victim's payment."""

    at: UnixSeconds
    job_id: JobId
    user: str
    account: str
    nodes: tuple[str, ...]
    #: node-seconds of the run that ended; 0 for one that came to its own end
    node_s: float
    #: the job that it left for, and that job's user and account where it is a TE job
    preemptor: JobId | None = None
    #: Slurm's count of that job's restarts, where Slurm preempted the victim and it started in its place
    preemptor_restarts: int | None = None
    #: when Slurm put that victim back in the queue, by Slurm's clock: before the poll that saw it
    put_back_at: UnixSeconds | None = None
    for_user: str = ""
    for_account: str = ""
    purpose: Purpose = Purpose.TE
    #: it had its notice and was let go: it has paid nothing, and the TE job's user may not ask it again for a while
    withdrawn: bool = False

    @property
    def of_own_user(self) -> bool:
        """Check whether it left for a TE job of its own user (`Victim.of_own_user`)."""
        return bool(self.user) and self.user == self.for_user
