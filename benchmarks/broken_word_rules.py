"""The rules of users' own words that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_PATIENCE, _ADMISSION = "core/tesched_core/intake/patience.py", "core/tesched_core/guard/admission.py"
_SERVE = "core/tesched_core/orders/serve.py"
_NOT_FOLLOWED = "core/tesched_core/intake/not_followed.py"

_ENDS, _DEPARTURES = "core/tesched_core/intake/ends_for_good.py", "core/tesched_core/orders/departures.py"
_GUARD, _CLASSIFY = "core/tesched_core/guard/eligibility.py", "core/tesched_core/intake/classify.py"
_ACTUATOR = "slurm/tesched_slurm/commands_actuator.py"

WORD_MUTATIONS = (
    Mutation("own most: it counts", _GUARD, "return own | site", "return site"),
    Mutation(
        "own most: reached, not passed",
        _GUARD,
        "memory.job(job_id).preemptions >= most",
        "memory.job(job_id).preemptions > most",
    ),
    Mutation(
        "own most: 0 where the site allows it", _CLASSIFY, "said == 0 and not word.may_say_no_preemptions", "False"
    ),
    Mutation(
        "own most: of a best-effort job",
        _CLASSIFY,
        "_own_most(pairs, word) if job_class is JobClass.BE else None",
        "_own_most(pairs, word)",
    ),
    Mutation(
        "own most: its owner is told that 0 does not count",
        _NOT_FOLLOWED,
        "and not word.may_say_no_preemptions",
        "and False",
    ),
    Mutation(
        "own most: what was said, and what counts",
        "cli/tesched_cli/render/not_followed.py",
        'f"{one}; {most} counts" for one in said',
        'f"{one}" for one in ()',
    ),
    Mutation(
        "own most: the script of one that waits is not read",
        "db/tesched_db/views.py",
        " or (self.state is JobState.PENDING and not self.restarts and not self.notice_signal)",
        "",
    ),
    Mutation(
        "own most: what it declares counts where it is suspended, too",
        "daemon/tesched_daemon/submission/asking.py",
        "gets_notice=snapshot.traits[victim.job_id].gets_notice",
        "gets_notice=victim.gets_notice",
    ),
    Mutation(
        "whatif: without a signal a run is lost",
        "cli/tesched_cli/recorded_past.py",
        "        saves_on_notice=[job.gets_notice for job in kept],\n",
        "",
    ),
    Mutation(
        "said: of an outlived job its words count",
        _CLASSIFY,
        "if one.about is not About.NOTICE)\n            found",
        ")\n            found",
    ),
    Mutation(
        "said: of another class",
        _NOT_FOLLOWED,
        "(_of_victims(said) if job_class is not JobClass.BE",
        "(() if job_class is not JobClass.BE",
    ),
    Mutation("end: the exact word alone", _ENDS, 'said.add(value if equals else "")', "said.add(value.lower())"),
    Mutation("end: no other word of its key", _ENDS, "return said == {ENDS}", "return ENDS in said"),
    Mutation("end: for TE jobs alone", _DEPARTURES, "ends = victim.purpose is Purpose.TE and", "ends ="),
    Mutation(
        "end: it is not put back",
        _DEPARTURES,
        "return Departure.ENDED if ends else Departure.DIED_OF_NOTICE",
        "return Departure.DIED_OF_NOTICE",
    ),
    Mutation(
        "suspend: the run that is meant",
        _ACTUATOR,
        'return not_that_run(seen, action.restarts) or self._do_to_run(seen, sluid, "scontrol", "suspend")',
        'return self._do_to_run(seen, sluid, "scontrol", "suspend")',
    ),
    Mutation(
        "suspend: the run that is meant, by pyslurm",
        "slurm/tesched_slurm/pyslurm_client.py",
        'return not_that_run(seen, action.restarts) or self._do(seen, "suspend")',
        'return self._do(seen, "suspend")',
    ),
    Mutation(
        "suspend: the run that is meant, simulated",
        "sim/tesched_sim/actuator.py",
        "elif slurm.restarts[row] != action.restarts:",
        "elif False:",
    ),
    Mutation(
        "in words: a notice that was sent",
        "cli/tesched_cli/explain.py",
        "    if not victim.gets_notice:",
        "    if not victim.notice_signal:",
    ),
    Mutation(
        "in words: a suspension is no notice",
        "cli/tesched_cli/explain.py",
        "if victim.by_suspending and victim.noticed_at is not None:",
        "if False:",
    ),
    Mutation(
        "to its user: a notice that was sent",
        "cli/tesched_cli/mine.py",
        "    if victim.gets_notice:",
        "    if victim.notice_signal:",
    ),
    Mutation(
        "drawn: a notice that was sent",
        "cli/tesched_cli/web/drawing.py",
        "noticed >= self.begin and victim.gets_notice",
        "noticed >= self.begin and victim.notice_signal",
    ),
    Mutation(
        "the clock: a hold of the hook's has no time",
        "core/tesched_core/orders/clock_jump.py",
        "at=one.at if one.at == NEVER else one.at + by_s",
        "at=one.at + by_s",
    ),
    Mutation(
        "suspend: one without an answer may arrive late",
        "core/tesched_core/orders/suspend.py",
        " and not _may_arrive(victim, context.now)",
        "",
    ),
    Mutation(
        "suspend: not for ever",
        "core/tesched_core/orders/suspend.py",
        "return given_up is not None and abs(now - given_up) <= UNANSWERED_WITHIN_S",
        "return given_up is not None",
    ),
    Mutation(
        "suspend: from when it was given up",
        "core/tesched_core/orders/suspend.py",
        "suspend_unanswered_at=outcome.at + outcome.took_s",
        "suspend_unanswered_at=victim.suspend_sent_at",
    ),
    Mutation(
        "saved: not without a notice",
        _DEPARTURES,
        "return victim.gets_notice and",
        "return bool(victim.notice_signal) and",
    ),
    Mutation("end: nor one that has saved", _DEPARTURES, "if again and ends:", "if False:"),
    Mutation(
        "end: as its owner says when it has ended",
        _DEPARTURES,
        "ends = victim.ends and ends_when_preempted(job.comment)",
        "ends = victim.ends",
    ),
    Mutation(
        "end: nor early",
        "core/tesched_core/orders/early_rerun.py",
        "job.requeueable and not victim.ends",
        "job.requeueable",
    ),
    Mutation(
        "end: another hand's cancel is none",
        _DEPARTURES,
        "if victim.state is VictimState.REQUEUING and victim.ends",
        "if victim.ends",
    ),
    Mutation(
        "end: the comment as it is",
        "core/tesched_core/orders/advance.py",
        "if job is not None and victim.state in {VictimState.PLANNED, VictimState.NOTICED}:",
        "if False:",
    ),
    Mutation(
        "end: as Slurm has it right before",
        _ACTUATOR,
        "return isinstance(action, Cancel) and not ends_when_preempted(seen.comment)",
        "return False",
    ),
    Mutation("end: no job that waits", _ACTUATOR, 'running = () if sluid else ("--state=RUNNING",)', "running = ()"),
    Mutation(
        "end: it is awaited no more",
        "core/tesched_core/model/order.py",
        "never = {Departure.FINISHED, Departure.ENDED,",
        "never = {Departure.FINISHED,",
    ),
    Mutation(
        "end: a cancel that fails",
        "core/tesched_core/orders/requeue.py",
        "(Requeue, Cancel), orders)",
        "Requeue, orders)",
    ),
    Mutation(
        "end: its user is told",
        "core/tesched_core/orders/tell_users.py",
        "victim.departure in {*PREEMPTED, Departure.ENDED}",
        "victim.departure in PREEMPTED",
    ),
    Mutation("patience: until it is over", _PATIENCE, "now >= ends_at", "now > 0"),
    Mutation("patience: its end", _PATIENCE, "now >= ends_at", "now > ends_at"),
    Mutation(
        "patience: since it became eligible",
        _PATIENCE,
        "(job.submit_time if job.eligible_time is None else job.eligible_time)",
        "job.submit_time",
    ),
    Mutation("patience: no plan with victims", _ADMISSION, "_too_early(plan.preemptor, view) or _inel", "_inel"),
    Mutation("patience: one more ask for all", _SERVE, "if is_early and not patient:", "if False:"),
    Mutation(
        "patience: the policy is shown no victim",
        "core/tesched_core/placement/eligibility.py",
        "if te.job_id in self.not_for:",
        "if False:",
    ),
    Mutation("patience: nor one ask each", _SERVE, "gone |= unplanned.keys()", "pass"),
    Mutation(
        "patience: who awaits awaits",
        _SERVE,
        "if why is not None and job_id not in awaiting}",
        "if why is not None}",
    ),
    Mutation(
        "patience: it is why", _SERVE, "said = _of_patient(proposal.refusals, unplanned)", "said = proposal.refusals"
    ),
    Mutation("patience: what else is why", _SERVE, "if job_id not in has_another", "if job_id"),
    Mutation("patience: no victims of a former answer", _SERVE, "deadlines.waiting = will_wait", "pass"),
    Mutation(
        "patience: on free resources it starts",
        _ADMISSION,
        "if not isinstance(plan, MakeRoom) or not plan.victims:\n        return None\n    return _too_early",
        "if not isinstance(plan, MakeRoom):\n        return None\n    return _too_early",
    ),
    Mutation(
        "patience: of a TE job alone",
        "core/tesched_core/intake/classify.py",
        "or 0.0) if job_class is JobClass.TE else 0.0",
        "or 0.0)",
    ),
    Mutation(
        "patience: with marks it is said",
        "core/tesched_core/orders/marking.py",
        "or patience.why_it_waits(job, context.snapshot.traits[job.job_id], context.now)",
        "",
    ),
    Mutation(
        "patience: no time while it is held",
        "db/tesched_db/job_values.py",
        "job.pending and not job.held and job",
        "job.pending and job",
    ),
    Mutation(
        "patience: nor right after its release",
        "db/tesched_db/job_values.py",
        "and not job.held and job.eligible_time is not None",
        "and not job.held",
    ),
    Mutation(
        "patience: the next poll",
        "core/tesched_core/step.py",
        "if at is not None and at > context.now]",
        "if at is not None and at < context.now]",
    ),
    Mutation(
        "patience: not while it is paused",
        "core/tesched_core/step.py",
        "    if not paused:\n        ends",
        "    if True:\n        ends",
    ),
    Mutation(
        "patience: a training's own",
        _NOT_FOLLOWED,
        'one.is_sure or job_class is JobClass.TE or any(other.key == "te" for other in said)',
        "True",
    ),
    Mutation("patience: of a job that has no victims", _NOT_FOLLOWED, "if job_class is not JobClass.TE:", "if False:"),
    Mutation(
        "patience: of two words the last",
        _NOT_FOLLOWED,
        'next((one for one in reversed(said) if one.key == "patience"',
        'next((one for one in said if one.key == "patience"',
    ),
)
