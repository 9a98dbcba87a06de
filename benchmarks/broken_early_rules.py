"""The rules of early turns that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_EARLY, _LOOP = "daemon/tesched_daemon/early.py", "daemon/tesched_daemon/loop.py"
_WAKEUP, _SERVICE = "daemon/tesched_daemon/wakeup.py", "daemon/tesched_daemon/service.py"
_READS, _OBSERVER = "slurm/tesched_slurm/single_reads.py", "slurm/tesched_slurm/resting_observer.py"
_KNOWLEDGE = "daemon/tesched_daemon/knowledge.py"
_FIT = "daemon/tesched_daemon/early_fit.py"
_DOCTOR = "daemon/tesched_daemon/doctor/early_turns.py"
_CHECKS = "daemon/tesched_daemon/config_checks.py"
_CLEAR = "slurm/tesched_slurm/clear_of_limits.py"

EARLY_MUTATIONS = (
    Mutation("early: where polls take long", _EARLY, "self._poll_s > FROM_S", "self._poll_s > 0"),
    Mutation("early: a poll that counts as long", _EARLY, "max(took_s, self.least_poll_s)", "took_s"),
    Mutation("early: ends by a young poll", _EARLY, "limits.wait_for_free_s <= 0 or now", "True or now"),
    Mutation("early: however long it took", _EARLY, "now - jobs_at <= FRESH_S", "now - jobs_at - 40 <= FRESH_S"),
    Mutation("early: a limit of RPCs is said", _FIT, "    if is_limited:", "    if False:"),
    Mutation("early: at any time between polls", _FIT, "FRESH_S = 2 * WINDOW_S", "FRESH_S = WINDOW_S / 3"),
    Mutation("early: ends before the last poll", _EARLY, "jobs_at=_jobs_at(last), jobs=jobs", "jobs=jobs"),
    Mutation(
        "early: ends as long before it",
        "core/tesched_core/orders/turnover.py",
        "known_at = context.now if context.snapshot.jobs_at is None else",
        "known_at = context.now if True else",
    ),
    Mutation("early: a site that gets none hears of it", _CHECKS, "if config.loop.early_turn and ", "if False and "),
    Mutation("early: nor of a default", _CHECKS, '"loop.early_turn" in loaded.tree.origins and ', ""),
    Mutation("early: nor where they come", _FIT, "if not all(entry.policy.serves_te", "if all(entry.policy.serves_te"),
    Mutation("early: seldom is said, too", _FIT, "and pace.poll_interval_s >= FRESH_S:", "and False:"),
    Mutation("early: not of those that ends do not keep", _FIT, "limits.wait_for_free_s > 0 and", ""),
    Mutation(
        "early: without pokes there are none", _FIT, "if not (pace.socket or pace.watch_state_folder or", "if not ("
    ),
    Mutation("early: one that is off is said", _FIT, "if not pace.early_turn:", "if False:"),
    Mutation("early: so is a client", _FIT, "if not reads_jobs:", "if False:"),
    Mutation("early: the doctor says it of long polls", _DOCTOR, "if takes_s <= FROM_S:", "if takes_s < 0:"),
    Mutation("early: by the client in use", _DOCTOR, 'not cycles[0].client.startswith("pyslurm")', "True"),
    Mutation("early: so does status", _EARLY, "if self._poll_s <= FROM_S:", "if False:"),
    Mutation("early: as the daemon goes by them", _LOOP, ", self._early.hindered(self, seen)", ""),
    Mutation("early: by default", "daemon/tesched_daemon/settings.py", "turn: bool = True", "turn: bool = False"),
    Mutation("early: where the site wants it", _EARLY, "and rules.pace.early_turn", "and True"),
    Mutation("early: not under limits on TE jobs", _EARLY, " or rules.limits.te.is_set)", ")"),
    Mutation("early: a clock set while it reads", _LOOP, "if jumped_s(self._clocks, now):", "if False:"),
    Mutation("early: the lease until the announced poll", _EARLY, "return max(announced_in_s, ", "return max(0.0, "),
    Mutation(
        "early: the lease until a poll can begin",
        _EARLY,
        "return max(announced_in_s, self._took_s)",
        "return max(announced_in_s, 0.0)",
    ),
    Mutation("early: limits in what is left", _LOOP, "early=True, within_s=early.left_s)", "early=True)"),
    Mutation("early: no read in vain", _EARLY, "if self._is_in_vain(len(job_ids),", "if self._is_in_vain(0,"),
    Mutation("early: nor another try", _EARLY, "self._too_slow |= in_vain", "pass"),
    Mutation("early: nor after a late one", _EARLY, "self._too_slow |= late", "pass"),
    Mutation(
        "early: reads again are no decision",
        _LOOP,
        "seen_at, next_in_s = now.steady - step_s,",
        "seen_at, next_in_s = clocks.steady,",
    ),
    Mutation(
        "limits: an early turn reads them for itself", _CLEAR, "if not users or (not early and", "if not users or ("
    ),
    Mutation("limits: and leaves the poll its own", _CLEAR, "        if not early:\n", "        if True:\n"),
    Mutation("early: reads no script", _KNOWLEDGE, "sources.known(snapshot) if early else ", ""),
    Mutation(
        "early: no script of another job",
        "slurm/tesched_slurm/declared_signal.py",
        "return job is not None and (self.run == (job.restarts, job.submit_time) or job.restarts > self.run[0])",
        "return job is not None",
    ),
    Mutation(
        "early: cores as CPUs, too",
        "slurm/tesched_slurm/cores_as_cpus.py",
        "{job_id: self.observer.counted(job) for job_id, job in read.items()}",
        "read",
    ),
    Mutation(
        "early: limits are as new as in a poll",
        "slurm/tesched_slurm/commands_observer.py",
        "self._settings.is_another or self._limits.are_due(settings)",
        "self._settings.is_another",
    ),
    Mutation(
        "early: and all that polls read",
        _READS,
        "        if isinstance(stood, Failure):\n            return stood\n",
        "",
    ),
    Mutation("early: no limit of RPCs since", _EARLY, "or seen.settings.rate_limit is not None ", ""),
    Mutation("early: until the poll that was announced", _EARLY, "max(next_at, began) + LATER_S", "began + 1e9"),
    Mutation("early: as long a rest after it", _WAKEUP, "max(self._not_before, at + took_s)", "self._not_before"),
    Mutation(
        "early: a grace period brings its poll", _WAKEUP, "self._poll_at = min(self._poll_at, at + next_in_s)", "pass"
    ),
    Mutation("early: the service plans it", _SERVICE, "turn.next_in_s if turn is not None else inf", "inf"),
    Mutation("early: as a poll does", _LOOP, "self.clock(), announced_in_s)", "1e12, announced_in_s)"),
    Mutation("early: of what it has left out, too", _EARLY, "if last.jobs_at is None else last.jobs_at", "or 0.0"),
    Mutation(
        "early: since when ends are left out", _OBSERVER, "jobs_at=taken_at) if same", "jobs_at=taken_at) if True"
    ),
    Mutation("early: no victim where a node differs", _EARLY, "return blank(snapshot, aside) if", "return snapshot if"),
    Mutation(
        "early: nor where nothing is known of it",
        _EARLY,
        "if held is None or (held.cpus, held.mem_mib) !=",
        "if held is None:\n        return True\n    if (held.cpus, held.mem_mib) !=",
    ),
    Mutation("early: by memory, too", _EARLY, "sum(p.mem_mib for p in parts)", "held.mem_mib"),
    Mutation("early: and by GRES", _EARLY, "return tuple(sorted(gres.items())) == held.gres", "return True"),
    Mutation("early: of all jobs there", _EARLY, "gres.get(name, 0) + count", "count"),
    Mutation("early: no bystanders", _LOOP, '"", counts_bystanders=False)', '"", counts_bystanders=True)'),
    Mutation(
        "early: not while anything is due", _EARLY, "and not all_is_due(memory, last,", "and True or (memory, last,"
    ),
    Mutation("early: not under the bound", _EARLY, "not (rules.limits.bound.is_set or ", "not ("),
    Mutation("early: not while paused, or a standby", _LOOP, "if lead.leader or lead.paused:", "if False:"),
    Mutation("early: not after a failed poll", _EARLY, "and not self._in_trouble", "and True"),
    Mutation("early: not under a limit of RPCs", _EARLY, "and last.settings.rate_limit is None", "and True"),
    Mutation(
        "early: what was perhaps written is read anew",
        _LOOP,
        "                self._memory = None\n            return None",
        "                pass\n            return None",
    ),
    Mutation("early: in no more time than a poll", _EARLY, "late = self.stopwatch() >= self._until", "late = False"),
    Mutation("early: each read in what is left", _READS, "min(self.commands.timeout_s, within_s)", "10.0"),
    Mutation("early: too many are a poll's", _EARLY, "self._too_many = True", "self._too_many = False"),
    Mutation("early: ten at most", _EARLY, "> MOST_NEW or self", "> MOST_NEW + 1 or self"),
    Mutation("early: ten are not too many", _EARLY, "> MOST_NEW or self", ">= MOST_NEW or self"),
    Mutation("early: an array is one", _EARLY, "{job.array_job_id or job.job_id for", "{job.job_id for"),
    Mutation("early: its tasks come with it", _EARLY, " if job_id not in found]", "]"),
    Mutation("early: tasks above that are a poll's", _EARLY, " or self._count > READS:", ":"),
    Mutation("early: a few at a time", _READS, "AT_ONCE = 4", "AT_ONCE = 1"),
    Mutation("early: all in what is left", _READS, "if left_s <= 0:", "if False:"),
    Mutation("early: no task without its details", _READS, " and row.job_id not in known:", " and False:"),
    Mutation("early: an array as a whole", _READS, "for row in reversed(rows)}", "for row in rows}"),
    Mutation("early: behind a gap", _EARLY, "GAPS = 2", "GAPS = 1"),
    Mutation(
        "early: what has changed is left alone",
        _EARLY,
        "and _lasting(job) == _lasting(decided_on)",
        "and True",
    ),
    Mutation("early: ids of CPUs are no change", _EARLY, 'replace(share, cpu_ids="")', "replace(share)"),
    Mutation(
        "early: forgotten jobs are not new ones",
        _EARLY,
        "max(self._highest, max(seen.jobs, default=0))",
        "max(seen.jobs, default=0)",
    ),
    Mutation("early: those before are read", _EARLY, "**new, **before}", "**new}"),
    Mutation("early: all of those before", _EARLY, " or not before.keys() >= set(waiting)", ""),
    Mutation("early: many before are a poll's", _EARLY, "if len(waiting) > MOST_BEFORE:", "if False:"),
    Mutation(
        "early: a hundred before are not many", _EARLY, "len(waiting) > MOST_BEFORE:", "len(waiting) >= MOST_BEFORE:"
    ),
    Mutation("early: those before in half of the time", _EARLY, "self.left_s * PART", "self.left_s"),
    Mutation("early: as long as reads take", _EARLY, "if self._is_in_vain(len(waiting),", "if self._is_in_vain(0,"),
    Mutation("early: many reads count as several", _EARLY, "return max(1, ceil(self._count / READS))", "return 1"),
    Mutation("early: those of the last one", _LOOP, "        self._early.begin()\n", ""),
    Mutation("early: the service counts them", _SERVICE, "counts_as=counts_as)", "counts_as=1)"),
    Mutation("early: bounded by their reads", _WAKEUP, "self._earlies.owe(counts_as - 1)", "pass"),
    Mutation("early: what is owed is waited for", "daemon/tesched_daemon/rates.py", "self._left -= times", "pass"),
    Mutation(
        "early: for a new trial alone",
        _EARLY,
        ".job_class is JobClass.TE for job in new.values())",
        ".job_class for job in new.values())",
    ),
    Mutation("early: one before a poll that is due", _WAKEUP, "(self._was_early and", "(False and"),
    Mutation("early: so many in all", _WAKEUP, "return self._earlies.take(at)", "return True"),
    Mutation(
        "early: not put off by the turn before",
        _WAKEUP,
        "return min(self._poll_wait_s(at), self._early_wait_s(at))",
        "return self._poll_wait_s(at)",
    ),
    Mutation("early: the poll follows", _WAKEUP, "if self._now is None:", "if False:"),
    Mutation(
        "early: an error in reading is the poll's",
        _LOOP,
        "        except Exception as error:\n            # Whatever it is",
        "        except JournalError as error:\n            # Whatever it is",
    ),
    Mutation("early: not after trouble", _WAKEUP, "takes_early and not troubled and pause_s <= 0", "takes_early"),
    Mutation("early: systemd hears of it", _SERVICE, '        notify(WATCHDOG="1")\n        with', "        with"),
)
