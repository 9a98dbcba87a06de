"""More rules that `python -m benchmarks.mutations` breaks: on a site that refuses changes of jobs."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_MODEL, _ORDERS = "core/tesched_core/model/refused.py", "core/tesched_core/orders/refused_changes.py"
_PRIORITY, _BINDING = (f"core/tesched_core/fields/{name}.py" for name in ("priority", "node_binding"))
_ADVANCE = "core/tesched_core/orders/advance.py"

REFUSED_MUTATIONS = (
    Mutation("refused: less and less often", _MODEL, "2.0 ** min(self.count - 1, 30)", "1.0"),
    Mutation("refused: of one user alone", _MODEL, "(self.everywhere or user in self.users)", "True"),
    Mutation("refused: of two users, of all", _MODEL, "before.everywhere or (", "before.everywhere and ("),
    Mutation("refused: of two users in an hour", _MODEL, " and at - before.at <= LONGEST_S", ""),
    Mutation("refused: unknown is not of all", _MODEL, "(not unknown and before.last", "(before.last"),
    Mutation("refused: unknown, one a poll", _MODEL, "at > before.at or not (unknown or before.count)", "True"),
    Mutation("refused: none of a time to come", _MODEL, "self.at - FIRST_S <= now < until", "now < until"),
    Mutation("refused: forgotten after two hours", _MODEL, "refused = recent(refused, at)", "pass"),
    Mutation("refused: one not understood, sooner", _MODEL, " if self.count else FIRST_S)", ")"),
    Mutation("refused: taken, it is forgotten", _MODEL, "    if not others:\n", "    if False:\n"),
    Mutation("refused: taken of another, not of all", _MODEL, "users=others, everywhere=False", "users=others"),
    Mutation("refused: unknown once is no refusal", _MODEL, '(0, "") if unknown else (1, user)', "(1, user)"),
    Mutation(
        "refused: no answer is none", _MODEL, "not is_refusal(outcome) and not unknown", "outcome.failure is None"
    ),
    Mutation("refused: nodes that it can't have", _MODEL, "and not (field is Field.NODES and of_these_nodes)", ""),
    Mutation("refused: no victim behind another job", _ORDERS, "if job.priority >= wanted:", "if True:"),
    Mutation("refused: a victim that is back soon", _ORDERS, "if settings.requeue_delay_s <=", "if False and 0 <="),
    Mutation("refused: overtaken, the order ends", _ADVANCE, "if why := given_up(order, context):", "if why := '':"),
    Mutation("refused: explicitly instead", _PRIORITY, "if not in_force and context", "if False and context"),
    Mutation("refused: what is in force stays", _PRIORITY, "if not in_force and context", "if context"),
    Mutation("refused: unbound", _BINDING, "why=why, insists=in_round", "why=why, insists=True"),
    Mutation("refused: an order goes on", _ORDERS, "if not needed or not is_refusal(outcome):", "if True:"),
    Mutation(
        "refused: a raise is put back later",
        "core/tesched_core/fields/nice.py",
        " if not is_refused(action, job, context)",
        "",
    ),
    Mutation("refused: what is put back is tried each minute", _MODEL, " if puts_back else self.retry_at", ""),
    Mutation(
        "refused: and for that reason alone", _MODEL, "if puts_back else self.retry_at", "if False else self.retry_at"
    ),
    Mutation(
        "refused: no hold at each poll",
        "core/tesched_core/fields/hold.py",
        "if not context.is_refused(Field.HOLD, jobs[job_id].user)]",
        "]",
    ),
    Mutation(
        "refused: no place for a victim at each poll",
        "core/tesched_core/fields/victim_boost.py",
        "why=why, by=By.VICTIM)",
        "why=why, by=By.VICTIM, insists=True)",
    ),
    Mutation(
        "refused: a later order says so",
        _ORDERS,
        "if order.victims and context.is_refused",
        "if False and context.is_refused",
    ),
    Mutation(
        "refused: an array's id may be no task's",
        "core/tesched_core/orders/outcomes.py",
        "if job.array_job_id == job_id), None)",
        "if False), None)",
    ),
    Mutation("refused: undo tries all", "core/tesched_core/orders/undo.py", "context.refused = {}", "pass"),
    Mutation("refused: what was not asked has not paid", _ADVANCE, "if was_asked(victim) and", "if"),
)
