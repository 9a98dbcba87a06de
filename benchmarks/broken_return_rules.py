"""The rules of which jobs Slurm would start again, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_RETURN = "core/tesched_core/placement/can_return.py"

RETURN_MUTATIONS = (
    Mutation("back: a deadline", _RETURN, "if job.deadline is not None:", "if False:"),
    Mutation("back: a partition that is up", _RETURN, 'partition.state != "UP" or', ""),
    Mutation("back: its time limit", _RETURN, "job.time_limit_s > longest", "False"),
    Mutation("back: no time limit", _RETURN, "job.time_limit_s is None or ", ""),
    Mutation("back: its most nodes", _RETURN, "fewest <= (partition.max_nodes or fewest) and", ""),
    Mutation("back: any partition", _RETURN, "not any(_takes(one, job, ", "not all(_takes(one, job, "),
    Mutation("back: its reservation", _RETURN, "and reservation.end_time > now", ""),
    Mutation("back: its licences", _RETURN, "< _LOSE_LICENSES[1]", "<= _LOSE_LICENSES[0]"),
    Mutation("back: its account", _RETURN, "return takes_account and ", "return "),
    Mutation("back: children of an account", _RETURN, " or not settings.release.startswith(_NO_CHILDREN)", ""),
    Mutation("back: its QOS", _RETURN, "job.qos.lower() in {", "True or {"),
    Mutation("back: a QOS in any case", _RETURN, "job.qos.lower() in {name.lower() for name in qos}", "job.qos in qos"),
    Mutation("back: where accounts are checked", _RETURN, "settings.limits_enforced and not", "not"),
    Mutation("back: any account", _RETURN, "takes_account = not accounts or ", "takes_account = "),
    Mutation("back: any QOS", _RETURN, "(not qos or ", "("),
    Mutation("back: its nodes", _RETURN, "partition.nodes.issuperset(job.nodes)", "True"),
    Mutation("back: nodes that are not read", _RETURN, "not partition.nodes or ", ""),
    Mutation("back: its features", _RETURN, "    if not job.request.features:", "    if True:"),
    Mutation(
        "back: features of several nodes",
        _RETURN,
        "    except UnsupportedConstraintError:\n        return True",
        "    except UnsupportedConstraintError:\n        return False",
    ),
    Mutation(
        "stuck: a limit of one job", "core/tesched_core/intake/pending_reason.py", "|(Assoc|QOS)Max\\w+PerJob|", "|"
    ),
    Mutation(
        "stuck: as Slurm says",
        "core/tesched_core/intake/pending_reason.py",
        "is not None\n\n\ndef room",
        "is None\n\n\ndef room",
    ),
)
