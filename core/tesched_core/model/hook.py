"""Jobs that the submission hook holds until they are admitted (systemd/job_submit.lua, `guard.bound`)."""

from __future__ import annotations

from tesched_core.model.cluster import Job

#: AdminComment of such a job. A user can't write it: Slurm refuses an ordinary user's --admin-comment.
HOOK_MARK = "tesched: held until admitted"


#: between a text of the site's, of its own job_submit.lua, and the mark
_BESIDE = "; "


def has_hook_mark(job: Job) -> bool:
    """Check whether the hook has held this job at its submission, whatever has become of the hold."""
    return job.admin_comment == HOOK_MARK or job.admin_comment.endswith(f"{_BESIDE}{HOOK_MARK}")


def without_mark(text: str) -> str:
    """Return an AdminComment without the hook's mark: what the site has written there."""
    return text.removesuffix(HOOK_MARK).removesuffix(_BESIDE)


def is_held_by_hook(job: Job) -> bool:
    """Check whether the job is held, and has the hook's mark: by the hook, or by an operator since."""
    # One that ran is held by others: a job keeps its mark where Slurm does not let it be removed.
    return job.held and has_hook_mark(job) and job.restarts == 0
