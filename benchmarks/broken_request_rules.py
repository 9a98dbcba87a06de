"""The rules of how Slurm's records say what a job asks for, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FORMATS, _BOUNDS = "slurm/tesched_slurm/slurm_formats.py", "slurm/tesched_slurm/cluster_bounds.py"

REQUEST_MUTATIONS = (
    Mutation("request: GRES without files are counted", _FORMATS, 'f":{behind[1]}" if behind[1] else ""', '""'),
    Mutation("request: units in small letters", _FORMATS, "re.ASCII | re.IGNORECASE", "re.ASCII"),
    Mutation("request: thousands and 1024s", _FORMATS, '"b" else 1024', '"b" else 1000'),
    Mutation("request: GRES of all nodes fit into 64 bits", _BOUNDS, "MOST_GRES_IN_ALL // max(nodes, 1)", "MOST_GRES"),
)
