"""The rules of tasks and devices that are spread unevenly over nodes, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_CANDIDATES, _MODELLED = "policies/tesched_policies/candidates.py", "core/tesched_core/placement/modelled.py"
_ALLOWED, _DEMAND = "core/tesched_core/placement/allowed.py", "core/tesched_core/placement/demand.py"
_UNEVEN, _SPREAD = "core/tesched_core/placement/uneven.py", "core/tesched_core/placement/spread.py"
_FEWEST, _CORES = "core/tesched_core/placement/fewest_spread.py", "core/tesched_core/placement/whole_cores.py"

SPREAD_MUTATIONS = (
    Mutation("spread: threads, on releases where it was seen", _UNEVEN, "if release.startswith(_SEEN_ON):", "if True:"),
    Mutation(
        "spread: one thread of each core", _UNEVEN, "(_SEEN_ON) and request.threads", "(_SEEN_ON) or request.threads"
    ),
    Mutation(
        "spread: CPUs of a task's GPUs, where it was seen",
        _MODELLED,
        "(release.startswith(_GIVES_TASKS_CPUS) and each",
        "(each",
    ),
    Mutation("spread: CPUs of a task's GPUs, but of whole nodes", _DEMAND, "if not whole:  #", "if True:  #"),
    Mutation(
        "spread: CPUs of a task's GPUs are enough", _MODELLED, "max(request.cpus, each * request.tasks)", "request.cpus"
    ),
    Mutation("spread: nodes of which none has most of both", _SPREAD, "if not ways:  #", "if False:  #"),
    Mutation("spread: on releases where it was seen", _UNEVEN, "    seen = release", "    seen = True or release"),
    Mutation("spread: a task a core without devices", _UNEVEN, "request.tasks_per_core == 1 and not devices)", "True)"),
    Mutation("spread: GPUs in all without others", _UNEVEN, "others or len(", "len("),
    Mutation(
        "spread: GPUs in all that bring memory", _UNEVEN, "or (request.gres_per_job and (per", "or (False and (per"
    ),
    Mutation(
        "placed by Slurm: any uneven shares",
        _UNEVEN,
        "    if not binds:\n        return",
        "    if False:\n        return",
    ),
    Mutation("placed by Slurm: any number of tasks", _DEMAND, "(self.binds and request.tasks >", "(request.tasks >"),
    Mutation(
        "placed by Slurm: whole nodes, unevenly", _DEMAND, "even = self.binds and self.whole", "even = self.whole"
    ),
    Mutation("placed by Slurm: any number of nodes", _DEMAND, "tried if binds else most", "tried"),
    Mutation("placed by Slurm: more than the fewest", _DEMAND, "if binds and takes_fewest", "if takes_fewest"),
    Mutation("spread: GPUs in all are enough", _SPREAD, "fit.devices.sum() >= uneven.devices >= nodes", "True"),
    Mutation("spread: nodes that Slurm may leave out", _SPREAD, " or not demand.uneven.sure", ""),
    Mutation("spread: the fewest victims over all nodes", _FEWEST, "cost = costs[left] + level", "cost = costs[left]"),
    Mutation("spread: a required node, whatever it costs", _FEWEST, "if required[place] else", "if False else"),
    Mutation("spread: GPUs and tasks by the same victims", _FEWEST, "if comb(jobs, level) > MOST_SETS", "if True"),
    Mutation("spread: one node by the rules of one node", _DEMAND, "least=max(least, 2)", "least=least"),
    Mutation(
        "spread: where a victim has to leave anyway", _SPREAD, "np.lexsort((-then, now > 0))", "np.argsort(-then)"
    ),
    Mutation(
        "devices by task: not spread where tasks share cores",
        _DEMAND,
        "allowed & (fill_cores(request, threads_of(capacity)) | self.with_two) if self.binds else allowed",
        "allowed",
    ),
    Mutation("devices by task: two free on each node", _DEMAND, "& by_task, 2, 0)", "& by_task, 1, 0)"),
    Mutation(
        "devices by task: two free, where it was seen",
        _UNEVEN,
        "and several and settings.release.startswith(_GPUS_SEEN_ON)",
        "and several",
    ),
    Mutation("devices by task: two free, for memory by node", _UNEVEN, "others or by_cpu or parts", "others or parts"),
    Mutation("devices by task: two free, of whole cores", _UNEVEN, "or by_cpu or parts_of_cores or", "or by_cpu or"),
    Mutation(
        "devices by task: nor evenly",
        _DEMAND,
        "amounts.start_with_devices(nodes) if binds else",
        "",
    ),
    Mutation("devices by task: no more than the node has", _UNEVEN, "(exact | by_node)", "by_node"),
    Mutation("devices by task: no more by the number for a node", _UNEVEN, "(exact | by_node)", "exact"),
    Mutation("devices by task: where more may be taken", _UNEVEN, " & (exact | by_node)", ""),
    Mutation("devices by task: no more, of one CPU", _UNEVEN, "(each == 1) & (on_each", "(on_each"),
    Mutation("devices by task: one on each node", _UNEVEN, " | (on_each == 1)", ""),
    Mutation("devices by task: tasks that fill one core", _UNEVEN, "found | (on_each * each == used) |", "found |"),
    Mutation(
        "devices by task: threads that are left unused",
        _UNEVEN,
        "np.minimum(threads, request.threads_per_core or threads)",
        "threads",
    ),
    Mutation("placed by Slurm: nodes with any number of threads", _UNEVEN, " is None or not binds:", " is None:"),
    Mutation("devices by task: by the number of nodes", _CANDIDATES, " or job.request.gres_per_task)", ")"),
    Mutation("threads with CPUs by GPU: by the number of nodes", _CANDIDATES, "(possible or by_number)", "possible"),
    Mutation(
        "placed by Slurm: GRES beside GPUs with CPUs",
        _MODELLED,
        "if binds and not counts_anew(settings.release):",
        "if not counts_anew(settings.release):",
    ),
    Mutation(
        "placed by Slurm: threads a core on the fewest nodes",
        _MODELLED,
        "request if binds else replace(request, max_nodes=request.min_nodes)",
        "request",
    ),
    Mutation(
        "placed by Slurm: shards of one GPU",
        _ALLOWED,
        "(wanted - 1) * gpus + 1 if certain else wanted",
        "(wanted - 1) * gpus + 1",
    ),
    Mutation(
        "placed by Slurm: a core on each socket",
        _ALLOWED,
        "(wanted - 1) * node.cores_per_socket + 1 if certain else wanted",
        "(wanted - 1) * node.cores_per_socket + 1",
    ),
    Mutation(
        "MaxMemPerNode: memory for each CPU",
        _ALLOWED,
        "request.mem_per_cpu_mib * _cpus_on_each(request) <= by_node",
        "True",
    ),
    Mutation(
        "whole nodes: CPUs for each of their GPUs",
        "core/tesched_core/placement/demand.py",
        "takes[:, 0] = np.maximum(takes[:, 0], cpus_of_whole(request, self.per_gpu.cpus, capacity))",
        "pass",
    ),
    Mutation(
        "one node: GRES beside GPUs with CPUs",
        "core/tesched_core/placement/cpus_of_gpus.py",
        "if request.min_nodes <= 1 and not",
        "if False and not",
    ),
    Mutation(
        "GPUs in all: CPUs for all tasks",
        _MODELLED,
        "return too_few or _is_too_few_in_all(",
        "return too_few or 0 and (",
    ),
    Mutation(
        "parts of cores: memory for all CPUs",
        _DEMAND,
        "takes[:, 1] = np.maximum(takes[:, 1], self._memory_for_all_cpus(in_all or nodes))",
        "pass",
    ),
    Mutation(
        "placed by Slurm: parts of cores",
        _DEMAND,
        "if not (self.binds and self.mem_by_cpu):",
        "if not self.mem_by_cpu:",
    ),
    Mutation("parts of cores: but on 26.05", _DEMAND, "(settings.single_cpus or not counts_anew(", "(True or ("),
    Mutation("parts of cores: where memory is for single CPUs", _DEMAND, "=settings.single_cpus,", "=False,"),
    Mutation("parts of cores: not with CR_Core", _CORES, "or not (single_cpus or each > 1):", ":"),
    Mutation("parts of cores: memory for whole cores", _CORES, "        most -= most % threads\n", "        pass\n"),
    Mutation("parts of cores: memory for whole tasks", _CORES, "    most -= most % each\n", ""),
    Mutation(
        "parts of cores: free, not held",
        _DEMAND,
        "            holds, takes = takes if holds is None else holds, takes.copy()\n",
        "            takes = takes.copy()\n",
    ),
    Mutation(
        "parts of cores: a task's own CPUs",
        _DEMAND,
        "own, by_gpu_own = request,",
        "own, by_gpu_own = with_cpus_of_tasks(request, per_gpu, settings.release)[0], False and",
    ),
    Mutation("parts of cores: MaxCPUsPerNode", _DEMAND, " & self._limit_allows(nodes)\n", "\n"),
    Mutation(
        "parts of cores: MaxCPUsPerNode with GPUs in all", _DEMAND, "allowed & self._limit_allows(least)", "allowed"
    ),
    Mutation("parts of cores: tasks that fill cores", _CORES, "short = (each % threads != 0) & _may", "short = _may"),
    Mutation(
        "parts of cores: a node with less memory",
        _CORES,
        "np.where(most % threads == 0, most * by_cpu, capacity.total[:, 1] + 1)",
        "most * by_cpu",
    ),
    Mutation("parts of cores: one CPU is left", _CORES, "found &= on_each % threads != 1", "pass"),
    Mutation("parts of cores: CPUs by GPU", _CORES, "if not by_gpu and", "if"),
    Mutation("parts of cores: more CPUs on a node", _CORES, " and request.min_cpus_per_node <= on_each", ""),
    Mutation("parts of cores: one thread of each", _CORES, "request.threads_per_core or threads) > 1", "threads) > 1"),
    Mutation(
        "parts of cores: tasks of each node are known",
        _CORES,
        " or request.tasks_per_node or request.gres_per_task",
        "",
    ),
    Mutation("parts of cores: without GRES", _CORES, "is_known and has_gres(request)", "is_known"),
    Mutation("parts of cores: a limit above all CPUs", _CORES, " & (most < capacity.total[:, 0])", ""),
)
