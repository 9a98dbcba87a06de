"""The rules of how Slurm's records say what a job asks for, which `python -m benchmarks.mutations` breaks.

Over 400 lines: it is a list, one entry a rule.
"""

from __future__ import annotations

from benchmarks.mutation import Mutation

_READING, _FUTILITY = "core/tesched_core/placement/memory_reading.py", "core/tesched_core/orders/futility.py"
_BINDING, _NUMBER = "core/tesched_core/fields/node_binding.py", "core/tesched_core/placement/node_count.py"
_CANDIDATES, _MODELLED = "policies/tesched_policies/candidates.py", "core/tesched_core/placement/modelled.py"
_BOUND = "core/tesched_core/placement/devices_of_bound.py"
_ALLOWED, _DEMAND = "core/tesched_core/placement/allowed.py", "core/tesched_core/placement/demand.py"
_UNEVEN, _PARTS = "core/tesched_core/placement/uneven.py", "core/tesched_core/placement/parts_of_tasks.py"
_LAYOUT, _CAPACITY = "core/tesched_core/model/column_layout.py", "core/tesched_core/placement/capacity_of.py"
_RECORDS, _RECKONED = "slurm/tesched_slurm/job_records.py", "core/tesched_core/placement/reckoned.py"
_DETAILS, _RECORD = "slurm/tesched_slurm/details.py", "slurm/tesched_slurm/record_details.py"
_FORMATS, _BOUNDS = "slurm/tesched_slurm/slurm_formats.py", "slurm/tesched_slurm/cluster_bounds.py"
_OF_GPUS = "core/tesched_core/placement/cpus_of_gpus.py"

_BOTH = "core/tesched_core/placement/memory_reading.py"

REQUEST_MUTATIONS = (
    Mutation(
        "both defaults: at all",
        _BOTH,
        "capacity.total[:, 1] >= np.maximum(cpus * by_cpu, by_node)",
        "capacity.total[:, 1] >= 0",
    ),
    Mutation(
        "both defaults: bound",
        _DEMAND,
        "if binds and settings.memory_is_shared_out and not (declined",
        "if settings.memory_is_shared_out and not (declined",
    ),
    Mutation("both defaults: the release", _DEMAND, "not (declined or defaults.counts_gpus)", "not declined"),
    Mutation(
        "both defaults: spread unevenly",
        _DEMAND,
        "allowed if enough is None else allowed & enough(most_cpus)",
        "allowed",
    ),
    Mutation(
        "both defaults: its own CPUs",
        _DEMAND,
        "np.minimum(capacity.total[:, 0], job.request.cpus)",
        "capacity.total[:, 0]",
    ),
    Mutation(
        "both defaults: all CPUs of a whole node",
        _DEMAND,
        "capacity.total[:, 0] if whole else np.minimum",
        "np.minimum",
    ),
    Mutation(
        "both defaults: which is named",
        _DEMAND,
        '"" if there.all() else counted_first',
        '"" if True else counted_first',
    ),
    Mutation("both defaults: by node", _BOTH, "if by_cpu else f", "if True else f"),
    Mutation(
        "both defaults: named where no node is large enough",
        _CANDIDATES,
        'f"{text}, for {demand.counted_first}" if',
        "text if",
    ),
    Mutation(
        "both defaults: named where it may be bound to none",
        _CANDIDATES,
        " if by_default else _BOUND_TO_NONE",
        " if not by_default else _BOUND_TO_NONE",
    ),
    Mutation(
        "both defaults: one task on what is free",
        _CANDIDATES,
        "job.request.threads_per_core or by_default)",
        "job.request.threads_per_core)",
    ),
    Mutation(
        "CPUs of GPUs: several nodes",
        _OF_GPUS,
        "elif request.min_nodes > 1 and not _starts",
        "elif False and not _starts",
    ),
    Mutation(
        "CPUs of GPUs: a task each",
        _OF_GPUS,
        "request.tasks <= request.min_nodes or request.tasks_per_node > 0",
        "request.tasks_per_node > 0",
    ),
    Mutation("CPUs of GPUs: tasks by node", _OF_GPUS, " or request.tasks_per_node > 0", ""),
    Mutation(
        "CPUs of GPUs: whole nodes",
        _OF_GPUS,
        "if not (is_fixed or takes_whole_nodes(request, partition)):",
        "if not is_fixed:",
    ),
    Mutation(
        "CPUs of GPUs: one task or two",
        _OF_GPUS,
        "    if not (is_fixed or takes_whole_nodes(request, partition)):\n        return True\n",
        "",
    ),
    Mutation("CPUs of GPUs: in all", _OF_GPUS, "return not in_all and", "return"),
    Mutation(
        "CPUs of GPUs: in all by default",
        _OF_GPUS,
        "bool(request.gres_per_job and request.cpus_per_gres)",
        "bool(request.gres_per_job)",
    ),
    Mutation(
        "CPUs of GPUs: in all alone",
        _OF_GPUS,
        "bool(request.gres_per_job and request.cpus_per_gres)",
        "bool(request.cpus_per_gres)",
    ),
    Mutation(
        "CPUs of GPUs: behind another",
        _OF_GPUS,
        "return not in_all and not _stands_behind(request)",
        "return not in_all",
    ),
    Mutation(
        "request: Slurm's word of one task in one partition alone",
        _OF_GPUS,
        "return job.reason not in NOT_EXAMINED and len(job.partitions) < 2",
        "return job.reason not in NOT_EXAMINED",
    ),
    Mutation(
        "request: GPUs by node behind another GRES",
        _OF_GPUS,
        "    if _stands_behind(request):\n",
        "    if False:\n",
    ),
    Mutation("request: GRES by node in their order", _RECORDS, "words.gres_in_order(", "words.asked_gres("),
    Mutation(
        "request: whole nodes with more CPUs by GPUs in all",
        _OF_GPUS,
        "return by_default and not request.gres_per_job and release",
        "return by_default and release",
    ),
    Mutation(
        "request: --mincpus above the CPUs of a node's tasks",
        _MODELLED,
        "if by_node and (nodes > 1 or a_node):",
        "if by_node and nodes > 1:",
    ),
    Mutation("request: parts of tasks that a limit leaves", _PARTS, "if most is None or by_itself", "if True"),
    Mutation(
        "request: one task on each node, whatever a limit leaves", _PARTS, "1 < nodes < request.tasks", "1 < nodes"
    ),
    Mutation("request: tasks by node, whatever a limit leaves", _PARTS, "or request.tasks_per_node or", "or"),
    Mutation(
        "request: nodes of no more CPUs than the limit",
        _DEMAND,
        "< (2**62 if least is None else least)",
        "< (2**62 if least is None else 0)",
    ),
    Mutation("request: parts of tasks on 22.05", _PARTS, "or release.startswith(_STARTS_WITH_FEWER)", ""),
    Mutation(
        "request: GPUs of two types with CPUs of its own",
        _MODELLED,
        "        if request.cpus_per_gres:\n            yield",
        "        if False:\n            yield",
    ),
    Mutation("reckoned: by its record", _RECORDS, "return nodes if nodes > low ==", "return 0 if nodes > low =="),
    Mutation("reckoned: of one task", _RECORDS, "nodes > low == (_number(said.num_tasks) or 1) == 1", "nodes > low"),
    Mutation(
        "reckoned: where no node is enough", _RECKONED, "if _is_enough_for(job, snapshot, capacity):", "if False:"
    ),
    Mutation(
        "reckoned: TE jobs alone",
        _RECKONED,
        "nodes < 2 or snapshot.job_class(job.job_id) is not JobClass.TE",
        "nodes < 2",
    ),
    Mutation("reckoned: two nodes alone on 26.05", _RECKONED, "(nodes == 2 and", "(nodes and"),
    Mutation("reckoned: memory that 26.05 hides", _RECKONED, "and not _by_gpu(job, snapshot))", ")"),
    Mutation("reckoned: enough CPUs", _RECKONED, "where &= capacity.total[:, 0] >= cpus", "pass"),
    Mutation("reckoned: enough memory", _RECKONED, "where &= capacity.total[:, 1] >= memory", "pass"),
    Mutation(
        "reckoned: bound without a number", _BINDING, "settable = settable and job.request.reckoned_nodes < 2", "pass"
    ),
    Mutation(
        "reckoned: of nodes that it may use", _RECKONED, "where &= allowed_anywhere(job, snapshot, capacity)", "pass"
    ),
    Mutation("reckoned: a task on each", _RECKONED, "tasks=nodes,", "tasks=1,"),
    Mutation("reckoned: each with its CPUs", _RECKONED, "nodes * max(request.cpus_per_task, 1)", "1"),
    Mutation("reckoned: and its memory", _RECKONED, "counted *= nodes", "pass"),
    Mutation(
        "reckoned: but that of GPUs",
        _RECKONED,
        "if counted is not None and not _by_gpu(job, snapshot):",
        "if counted is not None:",
    ),
    Mutation(
        "request: devices of further tasks by --mincpus, of a fixed number of nodes",
        _MODELLED,
        "return not release.startswith(_STARTS_WITH_TOO_FEW) or request.min_nodes != request.max_nodes",
        "return True",
    ),
    Mutation(
        "request: devices of further tasks by --mincpus, of an open number of nodes",
        _MODELLED,
        "return not release.startswith(_STARTS_WITH_TOO_FEW) or request.min_nodes != request.max_nodes",
        "return not release.startswith(_STARTS_WITH_TOO_FEW)",
    ),
    Mutation(
        "request: of a device that is named twice the last",
        _FORMATS,
        "return tuple(found.items())",
        "return tuple(_each_gres(value))",
    ),
    Mutation("request: nodes between blanks", _FORMATS, r're.compile(r"[\t ,]+")', 're.compile(r",")'),
    Mutation(
        "request: partitions that are named twice or not at all",
        _FORMATS,
        'dict.fromkeys(item for item in value.split(",") if item)',
        'value.split(",")',
    ),
    Mutation("request: excluded nodes as they were typed", _RECORD, r"ExcNodeList=([^\n=]*) ", r"ExcNodeList=(\S*) "),
    Mutation(
        "record: a label that is Slurm's word for none", _DETAILS, '("N/A", "(null)") if row.mcs', '("N/A",) if row.mcs'
    ),
    Mutation(
        "request: a whole node of one partition is no part of it in another",
        "core/tesched_core/placement/demand.py",
        'of_nodes = self.takes.tobytes() if self.takes.strides[0] else b""',
        'of_nodes = b""',
    ),
    Mutation(
        "request: devices by node and in all",
        _BOUND,
        "if count > 1 and name.partition",
        "if False and name.partition",
    ),
    Mutation(
        "request: devices by node and in all, where a node has just so many",
        _DEMAND,
        "allowed = allowed & with_exactly(exactly_on_each(request, settings.release), capacity)",
        "pass",
    ),
    Mutation(
        "request: --mincpus beside devices in all",
        _MODELLED,
        "request.min_cpus_per_node > a_task * request.tasks and",
        "request.min_cpus_per_node > a_task and",
    ),
    Mutation(
        "request: a device in all for each task that shares a core",
        _BOUND,
        "used <= max(request.cpus_per_task, 1)",
        "used <= 2",
    ),
    Mutation(
        "request: tasks that share a device in all are on one node",
        _BOUND,
        "if on_each % group == 0:",
        "if True or on_each % group == 0:",
    ),
    Mutation(
        "MaxMemPerNode: a number of nodes that Slurm takes",
        _ALLOWED,
        "return found if found <= most else None",
        "return least",
    ),
    Mutation(
        "request: devices in all that tasks by node share",
        _BOUND,
        "if each < 2 or nodes < 2 or",
        "if True or",
    ),
    Mutation(
        "request: a last node with fewer tasks",
        _BOUND,
        "-(-request.tasks // (request.tasks_per_node or request.tasks or 1))",
        "request.tasks // (request.tasks_per_node or request.tasks or 1)",
    ),
    Mutation(
        "request: an open number of nodes takes as many as its tasks",
        _BOUND,
        "if fewest < 2 or just >= fewest:",
        "if request.min_nodes < 2 or just >= fewest:",
    ),
    Mutation("request: a number that no node has is no word", _BOUND, "if count == _OF_NO_NODE:", "if False:"),
    Mutation(
        "request: devices in all that tasks by node share, uneven ones",
        _BOUND,
        "share if share * nodes == count else _OF_NO_NODE",
        "share",
    ),
    Mutation(
        "request: whole nodes in all partitions where one gives no others",
        "core/tesched_core/placement/whole_nodes.py",
        'return len(parts) > 1 and any(part.oversubscribe == "EXCLUSIVE"',
        'return len(parts) > 9 and any(part.oversubscribe == "EXCLUSIVE"',
    ),
    Mutation(
        "placed by Slurm: devices by node and in all, refused",
        _MODELLED,
        "    if binds:\n        yield from too_few",
        "    if True:\n        yield from too_few",
    ),
    Mutation(
        "placed by Slurm: devices by node and in all, on some nodes",
        _DEMAND,
        "    if binds:\n        allowed =",
        "    if True:\n        allowed =",
    ),
    Mutation("cores that may be shared: by job, 26.05", _LAYOUT, "(shares or not self.by_job)", "True"),
    Mutation("cores that may be shared: by partition, 22.05", _LAYOUT, "(shares or not self.by_job)", "shares"),
    Mutation("cores that are not shared", _LAYOUT, "found[self.unshared] = 1", "pass"),
    Mutation(
        "cores that are not shared: beside its like",
        _LAYOUT,
        "self.forced.isdisjoint(job.partitions[:1])",
        "True",
    ),
    Mutation(
        "cores that may be shared: jobs that are alike differ in it", _CAPACITY, 'job.request.sharing == "YES"', "False"
    ),
    Mutation("placed by Slurm: a part of a node", _DEMAND, "if binds and may_want_whole", "if may_want_whole"),
    Mutation(
        "placed by Slurm: a whole node",
        "core/tesched_core/orders/bystanders.py",
        "yield [with_whole_nodes(job) for job in alike]",
        "yield from ()",
    ),
    Mutation(
        "placed by Slurm: deadlines",
        "core/tesched_core/placement/places.py",
        "demands_of(job, alone, capacity, binds=False)",
        "demands_of(job, alone, capacity)",
    ),
    Mutation(
        "placed by Slurm: both ways without some",
        "core/tesched_core/placement/alike.py",
        "        key = job.job_id, job.request.exclusive\n",
        "        key = job.job_id\n",
    ),
    Mutation("request: GRES without files are counted", _FORMATS, 'f":{behind[1]}" if behind[1] else ""', '""'),
    Mutation("request: units in small letters", _FORMATS, "re.ASCII | re.IGNORECASE", "re.ASCII"),
    Mutation("request: thousands and 1024s", _FORMATS, '"b" else 1024', '"b" else 1000'),
    Mutation("request: GRES of all nodes fit into 64 bits", _BOUNDS, "MOST_GRES_IN_ALL // max(nodes, 1)", "MOST_GRES"),
    Mutation(
        "reading: the lesser one is tried first",
        "core/tesched_core/placement/demand.py",
        "        request = lesser_reading(job.request, defaults)",
        "        request = with_default_memory(job.request, defaults.per_gpu_mib, defaults.least_mib)",
    ),
    Mutation("reading: what 26.05 hides, by CPU", _READING, "if found is not request:", "if True:"),
    Mutation("pyslurm: GRES in units", "slurm/tesched_slurm/pyslurm_client.py", "or not lacks", "or True"),
    Mutation(
        "pyslurm: GRES in units, once",
        "slurm/tesched_slurm/pyslurm_client.py",
        "settings if lacks.isdisjoint(on_nodes) else None",
        "None",
    ),
    Mutation("reading: more after Slurm has declined", _FUTILITY, "context.draft.declined.add(family)", "pass"),
    Mutation("reading: declined with the resources free", _FUTILITY, "return context.fits(order)", "return True"),
    Mutation("reading: declined by a pass of Slurm's", _FUTILITY, " or not seen_at_the_head(job):", ":"),
    Mutation(
        "reading: memory that is no default is the job's own",
        _READING,
        " in defaults.per_cpu_mib else request",
        " else request",
    ),
    Mutation("reading: a count proves --mem=0", _READING, "defaults.everywhere or defaults.counts_gpus", "False"),
    Mutation(
        "reading: zero by GPU says nothing",
        _RECORDS,
        "for pair in words.asked_gres(value) if pair[1])",
        "for pair in words.gres(value))",
    ),
    Mutation("number of nodes: set when it is bound", _BINDING, "(in_round or settable)", "in_round"),
    Mutation("number of nodes: of a job that is bound", _CANDIDATES, "return is_bindable(job) and", "return"),
    Mutation("number of nodes: where jobs are bound at all", _CANDIDATES, "_may_be_bound_for_s(job, view) > 0", "True"),
    Mutation(
        "number of nodes: where Slurm takes it", _CANDIDATES, "may_be_set = refused is None or", "may_be_set = True or"
    ),
    Mutation("number of nodes: of the nodes of its own", _BINDING, "(settable or own.names", "(False or own.names"),
    Mutation(
        "number of nodes: of the nodes of its own, put back once",
        _BINDING,
        "if names == one.previous.names and not is_as_set(job, one):",
        "if False:",
    ),
    Mutation(
        "number of nodes: put back though the last binding did not arrive",
        "core/tesched_core/model/change.py",
        "[binding.value] if binding.before is None else [binding.value, binding.before]",
        "[binding.value]",
    ),
    Mutation("by itself: not again once declined", _CANDIDATES, "or family in view.snapshot.declined", "or False"),
    Mutation("by itself: with shards it is not known", _CANDIDATES, "or wants_shards(request)", "or False"),
    Mutation("by itself: on one node", _NUMBER, "for one in demands if one.nodes == 1)", "for one in demands)"),
    Mutation("spread: shards, where that was seen", _UNEVEN, "SHARD in devices and not gpus_seen", "False"),
    Mutation("spread: GPUs beside as many tasks on each node", _UNEVEN, "by_node if fixed and", "by_node if False and"),
    Mutation("number of nodes: not where it is one of tasks", _NUMBER, " or request.tasks_per_node:", ":"),
    Mutation("number of nodes: not where it is one of CPUs", _NUMBER, "* nodes <= request.cpus", "<= request.cpus"),
    Mutation("memory: each partition's own default", _READING, "max(mine, said) if mine", "said if mine"),
    Mutation("memory: another partition's default may be its own", _READING, "max(mine, said) if mine", "mine if mine"),
    Mutation(
        "memory: without a victim all of a node's beside DefMemPerGPU of another partition",
        _DEMAND,
        "if self.all_where_free:",
        "if False:",
    ),
    Mutation(
        "memory: not by itself beside DefMemPerGPU of another partition",
        _NUMBER,
        "if any(by_gpu_elsewhere",
        "if False and any(by_gpu_elsewhere",
    ),
    Mutation("memory: on a node of both by GPU", _DEMAND, "| where & np.any(", "| where & False & np.any("),
    Mutation(
        "memory: the least where none is shared out",
        _DEMAND,
        "if not settings.memory_is_shared_out and",
        "if False and",
    ),
    Mutation("number of nodes: the order's, before it is bound", _NUMBER, "job.pending and is_bindable(job)", "False"),
    Mutation(
        "number of nodes: victims leave while it is bound",
        "policies/tesched_policies/cheapest.py",
        "if self._leave_within(pair[1], candidates.bound_for_s)]",
        "]",
    ),
    Mutation("number of nodes: bound for the rest alone", _CANDIDATES, "else view.now - one.since)", "else 0.0)"),
    Mutation(
        "number of nodes: its user's stays",
        _BINDING,
        "own is None or asked != (own.least, own.most) or",
        "own is None or",
    ),
    Mutation(
        "number of nodes: its user's counts",
        "core/tesched_core/model/change.py",
        "if own is None or not is_as_set(job, binding):",
        "if own is None:",
    ),
    Mutation("number of nodes: not beside --mincpus", _NUMBER, "return more_by_node_starts(release) and", "return"),
    Mutation("number of nodes: tasks are left alone", _BINDING, "    if not with_tasks:\n", "    if False:\n"),
    Mutation("number of nodes: few are tried", _NUMBER, "if found == most:", "if False:"),
    Mutation(
        "number of nodes: memory is read for the fewest",
        _NUMBER,
        "if by_gpu and gpus_in_all",
        "if False and gpus_in_all",
    ),
    Mutation(
        "sockets: what must be free is not taken",
        "core/tesched_core/placement/demand.py",
        "holds, takes = takes if holds is None else holds, takes.copy()",
        "takes = takes.copy()",
    ),
    Mutation(
        "number of nodes: its partition's least",
        "core/tesched_core/placement/demand.py",
        ", partition.min_nodes if partition else 1)",
        ")",
    ),
    Mutation(
        "number of nodes: its partition's most",
        "core/tesched_core/placement/allowed.py",
        "return not too_few and least <= (partition.max_nodes or least)",
        "return not too_few",
    ),
    Mutation(
        "number of nodes: its user's, below its partition's",
        "core/tesched_core/placement/allowed.py",
        "1 < request.max_nodes < partition.min_nodes and not by_tasks",
        "False",
    ),
    Mutation("number of nodes: as its partition gives", _NUMBER, "if one.nodes == nodes and can_", "if can_"),
    Mutation("number of nodes: none above what it allows", _BINDING, "and len(nodes) <= job.request.max_nodes", ""),
    Mutation(
        "reading: a default by GPU of another partition",
        _MODELLED,
        "if others and not settings",
        "if False and not settings",
    ),
    Mutation(
        "reading: a default by GPU of another partition, on nodes of both",
        _DEMAND,
        "for other in by_gpu_elsewhere(job, snapshot.partitions[name], snapshot) if other in up",
        "for other in ()",
    ),
    Mutation("request: CPUs of a task are no device", _MODELLED, ' if name.partition("/")[0] not in NO_GRES]', "]"),
    Mutation(
        "mincpus: whole tasks on 26.05", _MODELLED, "if release.startswith(_STARTS_WITH_TOO_FEW) or", "if True or"
    ),
    Mutation("mincpus: as they are on 22.05", _MODELLED, "if release.startswith(_STARTS_WITH_TOO_FEW) or", "if"),
    Mutation(
        "spread: several GPUs a task evenly alone",
        _UNEVEN,
        "any(count > 1 for name, count in request.gres_per_task if name not in NO_GRES)",
        "False",
    ),
    Mutation(
        "spread: nodes alike in threads",
        _UNEVEN,
        "if capacity.threads is None or not binds:",
        "if True:",
    ),
    Mutation(
        "fewest: large ones where the cheapest are more",
        "core/tesched_core/placement/node_prices.py",
        "            if fewer:\n",
        "            if False:\n",
    ),
    Mutation(
        "request: -c in the place of a default",
        _MODELLED,
        "if request.cpus_per_task > 1 and is_own",
        "if False and is_own",
    ),
    Mutation(
        "request: a default in the place of -c",
        _MODELLED,
        "if request.cpus_per_task > 1 and is_own",
        "if request.cpus_per_task > 1",
    ),
    Mutation(
        "request: fewer CPUs in all than by -c",
        _MODELLED,
        "is_own = not request.gres_per_task or ",
        "is_own = ",
    ),
    Mutation("threads with CPUs by GPU: by the release", _MODELLED, "int(number) >= _COUNTS_ANEW", "True"),
    Mutation(
        "threads with CPUs by GPU: on nodes with one thread a core",
        "core/tesched_core/placement/demand.py",
        "        allowed &= capacity.threads == 1\n",
        "        pass\n",
    ),
    Mutation(
        "request: GPUs alone bring memory and CPUs",
        _MODELLED,
        'any(name.partition(":")[0] == "gpu" for',
        "any(True for",
    ),
    Mutation(
        "cpus-per-gpu: fewer than the tasks need, a fixed number alone",
        _MODELLED,
        "(varies or request.gres_per_job) and _brings_too",
        "False and _brings_too",
    ),
    Mutation("cpus-per-gpu: with --gpus no fewer", _MODELLED, "(varies or request.gres_per_job)", "varies"),
    Mutation("cpus-per-gpu: by task on several nodes", _MODELLED, "if several and not fill", "if False and not fill"),
    Mutation("DefCpuPerGPU: GPUs of two types on 26.05", _MODELLED, "if binds and types > 1 and", "if False and"),
    Mutation(
        "whole nodes in all partitions: but on 26.05",
        "core/tesched_core/placement/whole_nodes.py",
        "if counts_anew(snapshot.settings.release):",
        "if False:",
    ),
    Mutation(
        "GRES beside GPUs that bring CPUs: by default", _OF_GPUS, "by_default = not (", "by_default = False and ("
    ),
    Mutation(
        "GRES beside GPUs that bring CPUs: whole nodes",
        _OF_GPUS,
        "gres_per_task) or takes_whole",
        "gres_per_task) and takes_whole",
    ),
    Mutation(
        "GRES beside GPUs that bring CPUs: on 22.05 alone",
        _OF_GPUS,
        "not request.gres_per_job and release.startswith(_TRIED)",
        "not request.gres_per_job",
    ),
    Mutation(
        "GRES: tasks that share cores on one node alone",
        "core/tesched_core/placement/demand.py",
        "(on_one if nodes == 1 else allowed)",
        "on_one",
    ),
    Mutation("ntasks-per-core: cores with fewer tasks", _MODELLED, " % (request.tasks_per_core * nodes) != 0", " < 0"),
    Mutation(
        "MaxCPUsPerNode: whole nodes with no more",
        _ALLOWED,
        "(2**62 if most is None else most)",
        "2**62",
    ),
    Mutation(
        "partition: one that never holds it keeps no node",
        _ALLOWED,
        " or not memory_allowed(job.request, partition)",
        "",
    ),
    Mutation("sockets: a core on each is free for certain", _ALLOWED, "(wanted - 1) * node.cores_per_socket + 1", "1"),
    Mutation(
        "spread: tasks that fill cores",
        _UNEVEN,
        "(each % capacity.threads == 0) & (each > 1)",
        "capacity.threads == 0",
    ),
    Mutation(
        "spread: tasks that may not fill cores",
        _UNEVEN,
        "(each % capacity.threads == 0) & (each > 1)",
        "capacity.threads > 0",
    ),
    Mutation(
        "spread: fewer CPUs a task than threads a core",
        _UNEVEN,
        "(each >= capacity.threads) & (each > 1)",
        "(each > 1)",
    ),
)
