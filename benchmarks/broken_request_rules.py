"""The rules of how Slurm's records say what a job asks for, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_READING, _FUTILITY = "core/tesched_core/placement/memory_reading.py", "core/tesched_core/orders/futility.py"
_RECORDS = "slurm/tesched_slurm/job_records.py"
_FORMATS, _BOUNDS = "slurm/tesched_slurm/slurm_formats.py", "slurm/tesched_slurm/cluster_bounds.py"

REQUEST_MUTATIONS = (
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
    Mutation("reading: more after Slurm has declined", _FUTILITY, "context.declined.add(family)", "pass"),
    Mutation("reading: declined with the resources free", _FUTILITY, "return context.fits(order)", "return True"),
    Mutation("reading: declined by a pass of Slurm's", _FUTILITY, ' or job.reason != "Resources":', ":"),
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
        "for pair in words.gres(value) if pair[1])",
        "for pair in words.gres(value))",
    ),
)
