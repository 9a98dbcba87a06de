"""The rules of what TE jobs keep waiting, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_BYSTANDERS, _WAY = "core/tesched_core/orders/bystanders.py", "core/tesched_core/placement/in_the_way.py"
_MODEL, _ROWS = "core/tesched_core/model/bystander.py", "db/tesched_db/bystander_rows.py"

BYSTANDER_MUTATIONS = (
    Mutation("bystander: eligible before the TE job", _BYSTANDERS, "if _eligible_at(job) < way.eligible_before", ""),
    Mutation("bystander: not while it is away", _BYSTANDERS, "        and job_id not in away\n    ]", "    ]"),
    Mutation(
        "bystander: none that waits for something else",
        _BYSTANDERS,
        "return not room_would_not_help(job) or _is_reconsidered(job, memory)",
        "return True",
    ),
    Mutation("bystander: one without a reason goes on", _BYSTANDERS, " or _is_reconsidered(job, memory)", ""),
    Mutation("bystander: another job has its id", _BYSTANDERS, "job.submit_time != one.submitted_at", "False"),
    Mutation(
        "bystander: a task waited as its array",
        _BYSTANDERS,
        "    known |= _started_tasks(known, memory, context)\n",
        "",
    ),
    Mutation("bystander: not tasks that ran before", _BYSTANDERS, " and (task.start_time or 0.0) > last", ""),
    Mutation("bystander: from the TE job's start", _BYSTANDERS, "if started <= last - SLURM_SECOND_S:", "if True:"),
    Mutation("bystander: from the last examination", _BYSTANDERS, "last = min(memory.examined.at, last)", "pass"),
    Mutation(
        "bystander: until the TE job's end",
        _BYSTANDERS,
        "default=last)\n    return",
        "default=last)\n    end = last\n    return",
    ),
    Mutation("bystander: until its own start", _BYSTANDERS, "        ends.append(job.start_time)\n", "        pass\n"),
    Mutation("bystander: nothing of an unseen hour", _BYSTANDERS, "<= MOST_BETWEEN_S", "<= 1e9"),
    Mutation("bystander: no more than waits", _BYSTANDERS, "            and _waits(job, memory, context)\n", ""),
    Mutation(
        "bystander: a cycle that acts puts it off", _BYSTANDERS, "MOST_DEFERRED_S if context.actions else 0.0", "0.0"
    ),
    Mutation("bystander: the head of the queue alone", _BYSTANDERS, "if len(queue) > MOST_WAITING:", "if False:"),
    Mutation("bystander: its own user's apart", _MODEL, "each * sum(user == one.user for _, user in one.by)", "0.0"),
    Mutation("bystander: a second counts once", _MODEL, "each = seconds / len(one.by)", "each = seconds"),
    Mutation("bystander: not what fits", _WAY, " or fits_now(demands, room)", ""),
    Mutation("bystander: not what would not fit", _WAY, " or not fits_without(places >= 0)", ""),
    Mutation("bystander: as few TE jobs as possible", _WAY, "        gone[place] = False\n", "        continue\n"),
    Mutation(
        "bystander: newest first",
        _WAY,
        "key=lambda job: (-(job.start_time or 0.0), -job.job_id)",
        "key=lambda job: job.job_id",
    ),
    Mutation(
        "bystander: what a suspended job takes back",
        _WAY,
        "        frees[0] -= mine\n",
        "        frees[0] -= 0 * mine\n",
    ),
    Mutation(
        "bystander: a clock that is set",
        "core/tesched_core/orders/clock_jump.py",
        "replace(one, since=later(one.since), until=later(one.until))",
        "one",
    ),
    Mutation(
        "bystander: kept while an answer lacks it",
        "core/tesched_core/orders/missing.py",
        "        memory.bystanders,\n",
        "",
    ),
    Mutation(
        "bystander: a row of each job",
        _ROWS,
        "            gone.add(known)  # another job has its id now\n",
        "            pass\n",
    ),
    Mutation("bystander: forgotten with the job", _ROWS, ".values(in_memory=False)", ".values(in_memory=True)"),
    Mutation("bystander: listed while it waits", "db/tesched_db/delays.py", "BystanderRow.since.is_not(None)", "False"),
)
