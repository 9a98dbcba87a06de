"""What PD-ORS has planned for a job, in words: nodes, slots, price against worth, and the next best."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.model.round_state import JobPlan
from tesched_policies.pdors.describe import in_words

from tesched_cli.common import clock, hostlist


def lines(plan: JobPlan) -> Iterator[str]:
    """Return the plan, one line for each of its parts."""
    where = f" on {hostlist(plan.nodes)}" if plan.nodes else ""
    until = f"{clock(plan.start_at)} to {clock(plan.start_at + plan.run_s)}"
    if plan.started:
        yield f"  plan    it runs{where}, by the plan from {until}"
    elif plan.dropped:
        yield "  plan    none any more; Slurm starts it when and where it likes"
    elif plan.promised:
        yield f"  plan    from {until}{where}, which nobody else is promised; sooner if such nodes come free"
    else:
        yield f"  plan    none: it starts when room is left over; since {clock(plan.planned_at)}"
    if plan.note:
        yield f"          {plan.note}"
    if plan.option is not None:
        yield f"          {'chosen' if plan.promised else 'the best'}: {in_words(plan.option)}"
    if plan.next_best is not None:
        yield f"          next best: {in_words(plan.next_best)}"
