"""Plans in words."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.policy import Show

from tesched_policies.pdors.state import JobPlan, Option


def in_words(option: Option) -> str:
    """Return a way to run a job: what, when, and price against worth."""
    nodes = "1 node" if option.nodes == 1 else f"{option.nodes} nodes"
    where = f"in rack {option.rack}" if option.rack else "in several racks"
    wait = f"after {option.wait_slots} slots" if option.wait_slots else "at once"
    return (
        f"{nodes} {where} {wait} for {option.slots} slots; its end is worth {option.worth:.4g}, "
        f"the price is {option.price:.3g}, so {option.payoff:.4g} is left"
    )


def told(plan: JobPlan) -> str:
    """Return a plan in one line, which stays the same as long as the plan does."""
    parts = [plan.note] if plan.note else []
    if plan.option is not None and plan.promised:
        parts.append(f"reserved: {in_words(plan.option)}")
        if plan.next_best is not None:
            parts.append(f"next best: {in_words(plan.next_best)}")
    elif plan.started and not plan.note:
        parts.append("it started on resources that were left over")
    elif plan.option is not None and not plan.dropped and not plan.started:
        parts.append(f"left over, since even the best costs more than its end is worth: {in_words(plan.option)}")
        parts.append("it starts when resources are free that are reserved for no job")
    return "; ".join(parts)


def in_detail(plan: JobPlan, show: Show) -> Iterator[str]:
    """Yield the plan, one line for each of its parts."""
    where = f" on {show.nodes(plan.nodes)}" if plan.nodes else ""
    until = f"{show.time(plan.start_at)} to {show.time(plan.start_at + plan.run_s)}"
    if plan.started:
        yield f"  plan    it runs{where}, by the plan from {until}"
    elif plan.dropped:
        yield "  plan    none any more; Slurm starts it when and where it likes"
    elif plan.promised:
        yield f"  plan    from {until}{where}, reserved for it; sooner if such nodes come free"
    else:
        yield f"  plan    none: it starts when resources are left over; since {show.time(plan.planned_at)}"
    if plan.note:
        yield f"          {plan.note}"
    if plan.option is not None:
        yield f"          {'chosen' if plan.promised else 'the best'}: {in_words(plan.option)}"
    if plan.next_best is not None:
        yield f"          next best: {in_words(plan.next_best)}"
