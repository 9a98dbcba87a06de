"""The rules of what is kept while TE jobs are planned, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_GROUND, _LEDGER, _PASSED = (f"policies/tesched_policies/{name}.py" for name in ("ground", "ledger", "passed_over"))
_READ, _CAPACITY = "core/tesched_core/placement/read_jobs.py", "core/tesched_core/placement/capacity_of.py"
_COLUMNS = "core/tesched_core/placement/columns_of.py"
_NODES, _CANDIDATES = "core/tesched_core/placement/node_prices.py", "policies/tesched_policies/candidates.py"
_HOPELESS, _ENGINE = "sim/tesched_sim/hopeless.py", "sim/tesched_sim/engine.py"

KEPT_MUTATIONS = (
    Mutation("kept: columns of another site", _READ, "before.jobs.lasting is site.lasting", "True"),
    Mutation("kept: columns by the job's object", _READ, "(known.ids[rows] == ids) & ", ""),
    Mutation("kept: columns by its traits' object", _READ, " & (known.traits_ids[rows] == traits_ids)", ""),
    Mutation(
        "kept: columns by a reservation", _COLUMNS, 'np.flatnonzero(facts["is_reserved"])', "np.array([], np.intp)"
    ),
    Mutation("kept: columns by what is learned", _READ, "    if not len(changed):\n", "    if True:\n"),
    Mutation("kept: columns by limits", _CAPACITY, "known.limits == snapshot.limits", "True"),
    Mutation("kept: columns by nodes", _CAPACITY, "one is was or lasting_of(one) == lasting_of(was)", "True"),
    Mutation("kept: what nodes say is held", _CAPACITY, " if one is not was]", " if False]"),
    Mutation(
        "kept: objects of columns",
        _READ,
        "            jobs=jobs,\n",
        "            jobs=_objects([None] * len(jobs)),\n",
    ),
    Mutation("kept: no answer after a plan", _GROUND, "        self._answers.touch(touched)\n", ""),
    Mutation("kept: not hopeless after a plan", _GROUND, "        self._hopeless.touch(touched)\n", ""),
    Mutation(
        "kept: where a kind may run", _CANDIDATES, "demands = self.any + self.by_itself", "demands = self.any[:1]"
    ),
    Mutation("kept: strangers' prices but for own nodes", _GROUND, "found.reprice(by_node, nodes)", "pass"),
    Mutation(
        "kept: strangers' order but for own nodes",
        _GROUND,
        "self._shares_by_node(like[0]).repriced(price, like[1])",
        "self._shares_by_node(like[0])",
    ),
    Mutation("kept: how many are left", _GROUND, "-= int(np.count_nonzero(pool[victims]))", "-= 0"),
    Mutation("kept: prices after a plan", _GROUND, "found.update(nodes, free, pool)", "pass"),
    Mutation("kept: where it fits after a plan", _GROUND, "found[nodes] = demand.fits(self.capacity, nodes)", "pass"),
    Mutation("kept: the least after a plan", _GROUND, "found[nodes] = find(nodes,", "_ = (nodes,"),
    Mutation("kept: nodes of victims", _GROUND, "nodes.append(running.share_node[shares])", "nodes.append(shares[:0])"),
    Mutation(
        "kept: no plan that is replaced", _LEDGER, "[*other._touched[:plans], *self._touched]", "[*self._touched]"
    ),
    Mutation("kept: no answer by other scores", _GROUND, "np.array_equal(score, self._score)", "True"),
    Mutation("kept: prices by owner", _GROUND, "owner = job.user, job.account", 'owner = "", ""'),
    Mutation("kept: what is free at a plan", _LEDGER, "self._changes[count:plans]", "self._changes[count:]"),
    Mutation("kept: victims at a plan", _LEDGER, "self.taken[: self._changes[plans][2]]", "self.taken[:]"),
    Mutation("kept: several on a node", _NODES, "self._several.pop(node, None)", "pass"),
    Mutation("kept: promising ones in order", _NODES, "    insort(self._best, promise)\n", "    pass\n"),
    Mutation(
        "kept: those compared",
        _NODES,
        "            self._weighed = None\n            if",
        "            if",
    ),
    Mutation(
        "kept: by the job's own request",
        _CANDIDATES,
        "return *counts_for_demands(job, snapshot), *of_binding",
        "return of_binding",
    ),
    Mutation(
        "kept: of the candidates not those taken before",
        _PASSED,
        "[*self._ledger.taken_at(self._plans), *found.victims]",
        "[*found.victims]",
    ),
    Mutation("left out: until more is free", _HOPELESS, "or (self._may_leave(memory) > self._at_most).any()", ""),
    Mutation("left out: until an order changes", _HOPELESS, "memory.open_orders() != self._orders\n            or", ""),
    Mutation("left out: until a node goes", _HOPELESS, "or not np.array_equal(slurm.up, self._up)", ""),
    Mutation("left out: for the same user", _HOPELESS, " * (user.max(initial=0) + 1) + user)", ")"),
    Mutation(
        "left out: none for which a victim leaves",
        _HOPELESS,
        ".union(order.preemptor - 1 for order in self._orders)",
        "",
    ),
    Mutation("left out: not bound, not held", _HOPELESS, "and row not in others]", "]"),
    Mutation("left out: not after a plan was dropped", _HOPELESS, "one.code not in _OF_NO_PLAN for", "False for"),
    Mutation("left out: not after a suspension", _HOPELESS, "isinstance(one, Suspend | Resume) for", "False for"),
    Mutation("left out: what was preempted stays", _HOPELESS, "row not in stays and not", "not"),
    Mutation("left out: by no other policy", _HOPELESS, " and entry.policy.refuses_alone", ""),
    Mutation("left out: no limit of the guard's", _ENGINE, "limits == NO_LIMITS and can_leave_out", "can_leave_out"),
    Mutation(
        "left out: with them where something comes of it", _ENGINE, "if is_idle(memory, after, decision):", "if 1:"
    ),
    Mutation("left out: anew after all were weighed", _ENGINE, "hopeless.forget()  # all", "pass  # all"),
)
