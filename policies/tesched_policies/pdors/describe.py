"""Plans in words."""

from __future__ import annotations

from tesched_core.model.round_state import JobPlan, Option


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
        parts.append(f"promised: {in_words(plan.option)}")
        if plan.next_best is not None:
            parts.append(f"next best: {in_words(plan.next_best)}")
    elif plan.started and not plan.note:
        parts.append("it started on room that was left over")
    elif plan.option is not None and not plan.dropped and not plan.started:
        parts.append(f"left over, since even the best costs more than its end is worth: {in_words(plan.option)}")
        parts.append("it starts when room is free that nobody is promised")
    return "; ".join(parts)
