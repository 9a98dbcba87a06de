"""FitGpp: the victim is small, leaves quickly, and frees enough.

Definitions
    TE job       pending; a victim shall leave so that it starts. D_TE is what it wants.
    J            all best-effort jobs that now hold nodes.
    D_j, GP_j    what j holds over all its nodes; its grace period in seconds.
    L_j          seconds of its run that are lost if it is selected now: GP_j of a job that is sent its signal, which
                 saves in that time; of any other all of its run so far, too, in powers of two (`loss.py`).
    C            what j's first node has.
    Size(D)      sqrt( sum over CPU, memory and each GRES of (D_r / C_r)^2 ); 1 if it takes all of one resource.

Principle
    Score(j) = Size(D_j) / max over J of Size  +  s * L_j / max over J that save of L

    The victim is the j with the lowest score among eligible ones (the guard's word; the paper's cap P is one of its
    limits) and whose resources, with what is free beside them, fit the TE job. A small victim starts again soon;
    one with a short grace period lets the TE job start early and wastes little; one that fits is the only one that
    pays. No run time estimate is needed.
    In the paper each job saves its work in its grace period, so that L is GP. On a real cluster many declare no signal:
    their grace period would be next to nothing, and they would be the first to leave, though they lose all they did.
    Where no job of J saves, the most of L of all is below the line. Marks for the plugin have GP_j for L_j:
    they hold for as long as a run does, and Slurm sends no signal.
    Where no single job suffices (the paper's rule is silent): the fewest on one node, lowest sum of scores first, none
    of them superfluous. A TE job of several nodes takes its nodes one by one in the same way.
    Ties go to the lower job id.

    With a weight of quality a third term is added, which is not the paper's: quality * gain_j / max over J of gain,
    where gain is by how much the training's loss is expected to fall soon, as `policy.be = "slaq"` foretells it; of a
    worker, its part of that. Where nothing is foretold, the mean counts: silence is neither good nor bad.

Worked example
    Nodes of 32 CPUs and 8 GPUs, s = 4. The TE job wants 2 GPUs.
        A   16 CPUs, 4 GPUs, GP  60 s   Size = sqrt(0.5^2 + 0.5^2)   = 0.707
        B    8 CPUs, 2 GPUs, GP 180 s   Size = sqrt(0.25^2 + 0.25^2) = 0.354
        C    4 CPUs, 1 GPU,  GP  30 s   does not fit (1 GPU, none free beside it)
        Score(A) = 1   + 4 * 60/180  = 2.333
        Score(B) = 0.5 + 4 * 180/180 = 4.5
    A yields: B is smaller, and its grace period costs it more. With s = 0, B would.

Parameters
    s            weight of the grace period, 4.0
    quality      weight of the expected gain, 0.0
    P            most preemptions of one job, 1 in the paper: `model.limits.Limits.max_preemptions_per_job`

Paper
    Yabuuchi, Taniwaki, Omura: "Low-latency job scheduling with preemption for the development of deep learning",
    OpML 2019, arXiv 1902.01613.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.ranges import between, check_ranges
from tesched_core.model.resources import JobId
from tesched_core.policy import Policy, Proposal, View

if TYPE_CHECKING:
    from tesched_core.model.columns import Running

WHY = "its score of {score:.3f} was the lowest of those that free enough"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitGpp(Policy[None]):
    """The policy; see the head of this file."""

    #: weight of the grace period against the size
    s: Annotated[float, between(0, 1000)] = 4.0
    #: weight of the gain in quality that is expected of it
    quality: Annotated[float, between(0, 1000)] = 0.0
    name: ClassVar[str] = "fitgpp"
    serves_te: ClassVar[bool] = True
    refuses_alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError for a weight that would turn the rule round."""
        check_ranges(self)

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Return for each waiting TE job the cheapest victims that free enough for it."""
        from tesched_policies.loss import weighed_loss_s  # noqa: PLC0415 - as below
        from tesched_policies.victim_search import fewest_and_cheapest, plan_all  # noqa: PLC0415 - a configuration needs none

        scores = self._scores(view, weighed_loss_s(view.running, view.now))
        return plan_all(view, lambda _view, _preemptor: scores, fewest_and_cheapest, why=WHY)

    def rank(self, view: View, state: None) -> NDArray[np.float64]:
        """Return each running BE job's score for a mark, which does not change while it runs."""
        return self._scores(view, view.running.grace_s)

    def _scores(self, view: View, lost_s: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = fitgpp_scores(view.running, lost_s, self.s)
        return scores + self.quality * gains(view) if self.quality else scores


def fitgpp_scores(running: Running, lost_s: NDArray[np.float64], s: float) -> NDArray[np.float64]:
    """Return [running] each job's score; lower yields first. Source: FitGpp, section on victim selection.

    From 0 to 1 + s for a job that is sent its signal, and for each where none is.
    """
    largest = running.size.max(initial=0.0) or 1.0
    saving = lost_s[running.gets_notice]
    longest = (saving if len(saving) else lost_s).max(initial=0.0) or 1.0
    scores: NDArray[np.float64] = running.size / largest + s * lost_s / longest
    return scores


def gains(view: View) -> NDArray[np.float64]:
    """Return [running] each one's expected gain, 1 for the greatest; the mean where nothing is known."""
    jobs, known = view.snapshot.jobs, view.gains
    found = np.full(len(view.running), np.nan)
    for row, job_id in enumerate(view.running.job_id.tolist()):
        array = jobs[JobId(job_id)].array_job_id
        one = known.get(JobId(job_id), known.get(array) if array is not None else None)
        if one is not None:
            found[row] = one
    told = ~np.isnan(found)
    largest = found[told].max(initial=0.0)
    if not largest:
        return np.zeros(len(found))
    relative: NDArray[np.float64] = np.where(told, found, found[told].mean()) / largest
    return relative
