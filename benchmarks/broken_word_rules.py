"""The rules of users' own words that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_PATIENCE, _ADMISSION = "core/tesched_core/intake/patience.py", "core/tesched_core/guard/admission.py"
_NOT_FOLLOWED = "core/tesched_core/intake/not_followed.py"

WORD_MUTATIONS = (
    Mutation("patience: until it is over", _PATIENCE, "now >= ends_at", "now > 0"),
    Mutation("patience: its end", _PATIENCE, "now >= ends_at", "now > ends_at"),
    Mutation(
        "patience: since it became eligible",
        _PATIENCE,
        "(job.submit_time if job.eligible_time is None else job.eligible_time)",
        "job.submit_time",
    ),
    Mutation("patience: no plan with victims", _ADMISSION, "why := _too_early(plan, view) or", "why :="),
    Mutation(
        "patience: on free resources it starts",
        _ADMISSION,
        "if te is None or not isinstance(plan, MakeRoom) or not plan.victims:\n        return None\n    why =",
        "if te is None or not isinstance(plan, MakeRoom):\n        return None\n    why =",
    ),
    Mutation(
        "patience: of a TE job alone",
        "core/tesched_core/intake/classify.py",
        "or 0.0) if job_class is JobClass.TE else 0.0",
        "or 0.0)",
    ),
    Mutation(
        "patience: with marks it is said",
        "core/tesched_core/orders/marking.py",
        "or patience.why_it_waits(job, context.snapshot.traits[job.job_id], context.now)",
        "",
    ),
    Mutation(
        "patience: the next poll",
        "core/tesched_core/step.py",
        "if at is not None and at > context.now]",
        "if at is not None and at < context.now]",
    ),
    Mutation(
        "patience: not while it is paused",
        "core/tesched_core/step.py",
        "    if not paused:\n        ends",
        "    if True:\n        ends",
    ),
    Mutation(
        "patience: a training's own",
        _NOT_FOLLOWED,
        'one.is_sure or job_class is JobClass.TE or any(other.key == "te" for other in said)',
        "True",
    ),
    Mutation("patience: of a job that has no victims", _NOT_FOLLOWED, "if job_class is not JobClass.TE:", "if False:"),
    Mutation(
        "patience: of two words the last",
        _NOT_FOLLOWED,
        'next((one for one in reversed(said) if one.key == "patience"',
        'next((one for one in said if one.key == "patience"',
    ),
)
