"""The rules of what TE jobs keep waiting, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_TE_RUNS = "core/tesched_core/placement/te_runs.py"
_BYSTANDERS, _WAY = "core/tesched_core/orders/bystanders.py", "core/tesched_core/placement/in_the_way.py"
_ALIKE = "core/tesched_core/placement/alike.py"
_MODEL, _ROWS = "core/tesched_core/model/bystander.py", "db/tesched_db/bystander_rows.py"

BYSTANDER_MUTATIONS = (
    Mutation(
        "bystander: nodes of one user at a time",
        _BYSTANDERS,
        "demands_without=without)",
        "demands_without=None)",
    ),
    Mutation("bystander: where others are, too", _ALIKE, "kept | others if minds else kept", "kept"),
    Mutation("bystander: alike, users that keep nodes", _ALIKE, "job.user in capacity.keepers or ", ""),
    Mutation(
        "bystander: they stay", _ALIKE, "stays[[there.place[one] for one in gone if one in there.place]] = False", ""
    ),
    Mutation("bystander: eligible before the TE job", _BYSTANDERS, "if _eligible_at(job) < way.eligible_before", ""),
    Mutation("bystander: not while it is away", _BYSTANDERS, "        and job_id not in away\n    ]", "    ]"),
    Mutation(
        "bystander: none that waits for something else",
        _BYSTANDERS,
        "return not resources_would_not_help(job) or _is_reconsidered(job, memory)",
        "return True",
    ),
    Mutation("bystander: one without a reason goes on", _BYSTANDERS, " or _is_reconsidered(job, memory)", ""),
    Mutation("bystander: another job has its id", _BYSTANDERS, "job.submit_time != one.submitted_at", "False"),
    Mutation(
        "bystander: a task waited as its array",
        _BYSTANDERS,
        "    return (task.start_time or 0.0) > last - SLURM_SECOND_S\n",
        "    return False\n",
    ),
    Mutation(
        "bystander: not tasks that ran before",
        _BYSTANDERS,
        "    return (task.start_time or 0.0) > last - SLURM_SECOND_S\n",
        "    return True\n",
    ),
    Mutation("bystander: from the TE job's start", _BYSTANDERS, "if started <= last - SLURM_SECOND_S:", "if True:"),
    Mutation("bystander: from the last examination", _BYSTANDERS, "else min(memory.examined.at, last)", "else last"),
    Mutation("bystander: left since the last poll", _TE_RUNS, " or (job_id, job.start_time) in held", ""),
    Mutation("bystander: when, is not known", _TE_RUNS, "until if one.job_id in leaving else ", ""),
    Mutation("bystander: until its nodes are left", _BYSTANDERS, "one.end_time <= last else", "False else"),
    Mutation(
        "bystander: until the TE job's end",
        _BYSTANDERS,
        "return min(max(end, since), context.now)",
        "return min(max(_last_poll(memory, context), since), context.now)",
    ),
    Mutation("bystander: until its own start", _BYSTANDERS, "        known.append(job.start_time)\n", "        pass\n"),
    Mutation("bystander: nothing of an unseen hour", _BYSTANDERS, "<= MOST_BETWEEN_S", "<= 1e9"),
    Mutation("bystander: no more than waits", _BYSTANDERS, "        and _waits(job, memory, context)\n", ""),
    Mutation(
        "bystander: the head of the queue alone", _BYSTANDERS, "heapq.nlargest(MOST_WAITING, ", "heapq.nlargest(10**6, "
    ),
    Mutation("bystander: its own user's apart", _MODEL, "each * sum(te.user == one.user for te in one.by)", "0.0"),
    Mutation("bystander: a second counts once", _MODEL, "each = seconds / len(one.by)", "each = seconds"),
    Mutation(
        "bystander: not in a cycle that acts",
        _BYSTANDERS,
        "    if context.actions:\n        return MOST_DEFERRED_S\n",
        "",
    ),
    Mutation(
        "bystander: the head of the queue first",
        _BYSTANDERS,
        "key=lambda job: (job.priority, -job.job_id)",
        "key=lambda job: 0",
    ),
    Mutation("bystander: kinds", _BYSTANDERS, "count > MOST_KINDS or ", ""),
    Mutation("bystander: kinds on a large cluster", _BYSTANDERS, " or (count > 1 and nodes > MOST_NODES)", ""),
    Mutation(
        "bystander: away without an order",
        _BYSTANDERS,
        "context.deadlines is None and _left_without_order(job, memory)",
        "False",
    ),
    Mutation("bystander: a task of the same second", _BYSTANDERS, "> last - SLURM_SECOND_S\n", "> last\n"),
    Mutation("bystander: a run of a TE job", _BYSTANDERS, "one.user, one.start_time or 0.0)", "one.user, 0.0)"),
    Mutation(
        "bystander: not while it only watches",
        _BYSTANDERS,
        "{job_id: ended(one, last) for job_id, one in memory",
        "{job_id: one for job_id, one in memory",
    ),
    Mutation(
        "bystander: the largest parts",
        _MODEL,
        "key=lambda share: (-share.seconds, share.job_id)",
        "key=lambda share: share.job_id",
    ),
    Mutation("bystander: ends when its id is another's", _ROWS, "if one.since is not None}", "if False}"),
    Mutation("bystander: not what fits", _WAY, " or fits_now(demands, capacity)", ""),
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
        "gone[known] = before  # another",
        "pass  # another",
    ),
    Mutation("bystander: forgotten with the job", _ROWS, ".values(in_memory=False)", ".values(in_memory=True)"),
    Mutation("bystander: listed while it waits", "db/tesched_db/delays.py", "BystanderRow.since.is_not(None)", "False"),
    Mutation(
        "shards: none of a type that a node lacks",
        "core/tesched_core/model/column_layout.py",
        "            if not has[column]:\n                continue\n",
        "",
    ),
)
