"""The rules of how the end of a victim's run is seen and answered, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_EARLY, _REQUEUE = "core/tesched_core/orders/early_rerun.py", "core/tesched_core/orders/requeue.py"
_DEPARTURES, _TOGETHER = "core/tesched_core/orders/departures.py", "core/tesched_core/orders/leave_together.py"
_ADVANCE = "core/tesched_core/orders/advance.py"
_WITHHELD = "core/tesched_core/orders/withheld.py"
_PROBES = "daemon/tesched_daemon/probes.py"

_OTHERS = "core/tesched_core/orders/others_victims.py"

ENDING_MUTATIONS = (
    Mutation("others: it is needed", _OTHERS, " and not _is_enough(without, other.nodes, context):", ":"),
    Mutation("others: one of several", _OTHERS, "coming - {victim.job_id} - over", "coming - {victim.job_id}"),
    Mutation("others: not with a bound", _OTHERS, "context.limits.bound.is_set or ", ""),
    Mutation(
        "others: only where its TE job has taken something",
        _OTHERS,
        "preemptor is None or not preemptor.on_nodes or set(other.nodes).isdisjoint(preemptor.nodes)",
        "preemptor is None",
    ),
    Mutation("others: it is enough", _OTHERS, "if _is_enough(with_it, other.nodes, context) and", "if"),
    Mutation("others: awaited", _ADVANCE, " or awaits_others(order, context)):", "):"),
    Mutation(
        "others: requeued at the end",
        _ADVANCE,
        "not leaves and is_lacked(victim, order, context):",
        "False:",
    ),
    Mutation("others: only if its TE job has started", _OTHERS, " and order.ending in _STARTED\n", "\n"),
    Mutation(
        "others: only if that is enough",
        _OTHERS,
        "bool(coming) and _is_enough(coming, order.nodes, context)",
        "bool(coming)",
    ),
    Mutation("others: only if it does not fit", _OTHERS, " and not context.fits(order)", ""),
    Mutation("others: one that is suspended", _OTHERS, "return job.state is JobState.RUNNING", "return True"),
    Mutation(
        "others: of an open order, too",
        _OTHERS,
        "order.state is OrderState.OPEN or victim.state",
        "False and victim.state",
    ),
    Mutation("probes are bounded", _PROBES, ".take(now):", ".take(now) and False:"),
    Mutation("probes: victims keep no TE job from its own", _PROBES, "self._bucket if since is None else", ""),
    Mutation("early rerun: one that was skipped comes next", _REQUEUE, "outcome.status is not Status.FAILED", "False"),
    Mutation("probes of victims", _PROBES, "latest[:MOST_VICTIMS]", "latest[:0]"),
    Mutation("probes: less and less often", _PROBES, "(now - since) * PAUSE", "0.0"),
    Mutation("early rerun: a failure", _EARLY, " and has_failed(job)", ""),
    Mutation("early rerun: RequeueExit is Slurm's", _EARLY, " and job.exit_status not in by_site", ""),
    Mutation("early rerun: once", _EARLY, "context.now - sent_at <= RESEND_AFTER_S", "False"),
    Mutation("early rerun: the run that had the notice", _EARLY, " and job.restarts == victim.restarts", ""),
    Mutation("early rerun: refused, it is not lost yet", _REQUEUE, " and _has_left(again, job_id)", ""),
    Mutation(
        "expedited: RequeueExitHold is the site's",
        "core/tesched_core/fields/left_held.py",
        ' or "SPECIAL_EXIT" in job.flags',
        "",
    ),
    Mutation(
        "left held: its user's hold is its user's",
        "core/tesched_core/fields/left_held.py",
        "return job.reason == HELD_BY_ITS_USER",
        "return False",
    ),
    Mutation("expedited: on such a site", _ADVANCE, "and context.snapshot.settings.holds_expedited", ""),
    Mutation(
        "early rerun: it has died of its notice",
        _DEPARTURES,
        "Departure.DIED_OF_NOTICE if early else Departure.REQUEUED_ITSELF",
        "Departure.REQUEUED_ITSELF",
    ),
    Mutation(
        "early rerun: its nodes are not free yet",
        _TOGETHER,
        "    if job.completing:",
        "    if job.completing and job.restarts == victim.restarts:",
    ),
    Mutation(
        "ending: no Epilog is part of a TE job's run",
        "core/tesched_core/orders/useful_run.py",
        "over = job.completing and not job.finished",
        "over = False",
    ),
    Mutation(
        "ending: what is completing may end with success",
        "core/tesched_core/orders/useful_run.py",
        "goes_back = over and _goes_back(job, context)",
        "goes_back = over",
    ),
    Mutation(
        "ending: an exit code of the site's says that it goes back",
        "core/tesched_core/orders/useful_run.py",
        "or job.exit_status in settings.requeue_exit | settings.requeue_exit_hold",
        "",
    ),
    Mutation(
        "ending: what was a short run before its Epilog stays one",
        "core/tesched_core/orders/useful_run.py",
        "return replace(order, started_at=None) if over else order",
        "return order",
    ),
    Mutation(
        "ending: one that is back by its first poll is no new run",
        "core/tesched_core/orders/useful_run.py",
        "restarts = order.restarts if gone else run.restarts",
        "restarts = run.restarts",
    ),
    Mutation(
        "ending: nothing of an Epilog counts while it goes on",
        "core/tesched_core/orders/useful_run.py",
        "if job.completing and order.started_at is None:",
        "if False:",
    ),
    Mutation(
        "ending: what came of a run is remembered in its Epilog",
        "core/tesched_core/orders/futility.py",
        "if job.completing:  # its run is over",
        "if False:  # its run is over",
    ),
    Mutation(
        "ending: a TE job that is completing has started",
        "core/tesched_core/orders/started.py",
        "over = job is not None and itself is None and",
        "over = False and itself is None and",
    ),
    Mutation(
        "ending: no victim leaves while another one stays",
        _ADVANCE,
        "elif why := why_short(order, context):",
        "elif why := why_short(order, context) and False:",
    ),
    Mutation(
        "ending: a victim that is exempt by now stays",
        _WITHHELD,
        " or context.snapshot.job_class(job.job_id) is JobClass.EXEMPT:",
        ":",
    ),
    Mutation(
        "ending: where all others have left the order goes on",
        _WITHHELD,
        "if others and not any(_still_holds(one, context) for one in others):",
        "if False:",
    ),
    Mutation(
        "ending: one that has just left holds no more",
        _WITHHELD,
        " and departure_of(victim, job, context.now, context.release) is None",
        " and (job is None or job is not None)",
    ),
    Mutation(
        "ending: one that has had its notice leaves all the same",
        _WITHHELD,
        "if victim.state is not VictimState.PLANNED or",
        "if",
    ),
)
