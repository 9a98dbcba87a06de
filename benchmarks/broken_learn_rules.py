"""Mutations of what is learned from sacct's tables, what `tesched report` passes over, and stores on a network."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_DRAWN, _TABLE, _RUN = (f"sim/tesched_sim/traces/{name}.py" for name in ("drawn", "sacct", "finished"))
_RECORDS = "core/tesched_core/intake/drawn_records.py"
_GPUS, _REPORT = "core/tesched_core/intake/accounted_gpus.py", "cli/tesched_cli/report.py"
_SYSTEMS, _CHECKS = "daemon/tesched_daemon/file_systems.py", "daemon/tesched_daemon/config_checks.py"

LEARN_MUTATIONS = (
    Mutation("learn: a drawn separator is known by the head", _DRAWN, 'found[1] if found else "|"', '"|"'),
    Mutation("learn: a record goes on over line feeds", _RECORDS, "while 0 < separators", "while 0 > separators"),
    Mutation("learn: a warning begins no record", _RECORDS, "while 0 < separators", "while 0 <= separators"),
    Mutation("learn: users' text ends no record", _DRAWN, "if name not in OWN:", "if False:"),
    Mutation("learn: a record is bounded", _RECORDS, "if length > LONGEST_RECORD:", "if False:"),
    Mutation("learn: users' text beside a known separator", _TABLE, 'if separator == "|" else ""', 'if False else ""'),
    Mutation("learn: and it is refused", _RUN, "if name := recorded.open_to_users:", 'if name := "":'),
    Mutation("learn: requested CPUs", _RUN, "cpus if cpus >= 0 else ", ""),
    Mutation("learn: requested GPUs", _RUN, "gpus if gpus >= 0 else ", ""),
    Mutation("learn: GPUs by type", _GPUS, 'name.startswith(f"{_GPU}:")', "False"),
    Mutation("learn: GPUs count once", _GPUS, "if plain := amounts.get(_GPU):", 'if plain := "":'),
    Mutation("network: a link is followed", _SYSTEMS, "bounded_read(folder.resolve)", "folder"),
    Mutation("network: a SQLite store there is warned of", _CHECKS, "if kind := served_by(folder):", 'if kind := "":'),
    Mutation("network: SQLite alone", _CHECKS, 'url.get_backend_name() != "sqlite" or ', ""),
    Mutation("report: what is no number is passed over", _REPORT, "not np.isfinite(value):", "False:"),
    Mutation(
        "report: no file is followed in vain",
        _REPORT,
        "file is not None and _is_heard(environment)",
        "file is not None",
    ),
    Mutation("report: one rank follows", _REPORT, "if not speaks_for_its_job(environment):", "if False:"),
    Mutation("report: a file of a training that diverged", _REPORT, "if has_losses and (", "if False and ("),
)
