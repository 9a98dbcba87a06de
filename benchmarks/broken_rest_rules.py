"""The rules of polls at rest, and of what a poll writes, that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_LEAVING, _UNDO = "daemon/tesched_daemon/leaving.py", "daemon/tesched_daemon/undo.py"
_UNDO_CLI = "cli/tesched_cli/undo.py"
_REST, _LOOP = "daemon/tesched_daemon/rest.py", "daemon/tesched_daemon/loop.py"
_OBSERVER = "slurm/tesched_slurm/resting_observer.py"
_COLUMNS, _DETAILS = "slurm/tesched_slurm/columns.py", "slurm/tesched_slurm/details.py"
_PIECES, _PROCESS = "slurm/tesched_slurm/answer_bytes.py", "slurm/tesched_slurm/bounded_process.py"
_GARBAGE, _SERVICE = "daemon/tesched_daemon/garbage.py", "daemon/tesched_daemon/service.py"
_REFUSALS = "db/tesched_db/refusals.py"
_WORKLOAD = "sim/tesched_sim/workloads/fitgpp.py"
_ERRORS = "cli/tesched_cli/one_line_errors.py"
_NARROW = "cli/tesched_cli/narrow_table.py"
_REMEMBERED = "cli/tesched_cli/render/remembered.py"
_MANY_ROWS = "db/tesched_db/many_rows.py"
_OTHERS = "core/tesched_core/model/other_objects.py"
_JOB_ROWS, _JOB_VALUES = "db/tesched_db/job_rows.py", "db/tesched_db/job_values.py"
_FOUND, _SIGNS = "daemon/tesched_daemon/new_jobs.py", "slurm/tesched_slurm/submission_signs.py"

REST_MUTATIONS = (
    Mutation("leaving: until it is done", _LEAVING, "        return True\n", "        return begins\n"),
    Mutation("leaving: a victim that had its notice", _LEAVING, "return victim.noticed_at is not None or", "return"),
    Mutation("leaving: what can be put back", _LEAVING, "if last is None:", "if True:"),
    Mutation("leaving: what the hook holds", _LEAVING, "admission is not None and admission.is_there", "False"),
    Mutation(
        "leaving: not what another's hook holds", _LEAVING, "if one.at == NEVER and job_id", "if False and job_id"
    ),
    Mutation("leaving: a job in doubt", _LEAVING, "return bool(job.doubt) or", "return"),
    Mutation("leaving: a victim that leaves, or may leave", _LEAVING, "return may_go(victim, last)", "return False"),
    Mutation(
        "leaving: one that has left", _LEAVING, "last.settings.release) is not None:", "last.settings.release) is None:"
    ),
    Mutation("leaving: an early rerun", _LEAVING, "return victim.requeue_sent_at is not None", "return True"),
    Mutation("leaving: it is sent once", _LEAVING, "return victim.requeue_sent_at is not None", "return False"),
    Mutation("leaving: a turn in any case", _LEAVING, "before is Mode.ENFORCE", "False"),
    Mutation("leaving: an open order of the mode before", _LEAVING, "(was_enforce and has_open)", "False"),
    Mutation("leaving: by the mode that wrote last", _LEAVING, "last.mode == Mode.ENFORCE or", ""),
    Mutation("leaving: or was leaving it", _LEAVING, " or bool(last.leaving)", ""),
    Mutation("leaving: not for what waits", _LEAVING, "any(one.state is OrderState.OPEN for", "any(True for"),
    Mutation(
        "stop: the others, too",
        _UNDO,
        "except JournalError as error:\n            turn",
        "except () as error:\n            turn",
    ),
    Mutation("stop: an error at the end", _UNDO, "        raise refused\n", "        pass\n"),
    Mutation(
        "stop: not once one was written", _UNDO, "refused = turn.refused\n", "refused = turn.refused or refused\n"
    ),
    Mutation("stop: no standby's", _UNDO, "steady=steady, only_as_leader=True", "steady=steady"),
    Mutation("stop: nor once another leads", _UNDO, "if poll == 1:", "if True:"),
    Mutation("stop: at once where another leads", _UNDO, "isinstance(refused, LedByAnotherError)", "False"),
    Mutation("stop: the lease's error", "db/tesched_db/lease.py", "StoreError, LedByAnotherError", "StoreError"),
    Mutation("stop: what a refused turn has sent", _UNDO, "return sent or (", "return not turn.trouble and (sent or "),
    Mutation("undo: what a refused turn has sent", _LOOP, "(turn, outcomes=outcomes, refused=", "(turn, refused="),
    Mutation("undo: it says that it waits", _UNDO_CLI, "turn.refused is None and", "False and"),
    Mutation("undo: what was done before the store failed", _UNDO_CLI, "        if not done.rows:", "        if True:"),
    Mutation("undo: nothing could be done", _UNDO_CLI, "if done.trouble and done.left is None", "if False"),
    Mutation("undo: what is left, as it was last seen", _UNDO_CLI, "if not turn.trouble:", "if True:"),
    Mutation("undo: what was done is said without the store", _UNDO_CLI, "done.trouble or str(error)", "done.trouble"),
    Mutation("stop: a bound on turns in vain", _UNDO, "steady() - troubled_at >= TROUBLE_S", "False"),
    Mutation("stop: not after one of them", _UNDO, "if troubled > 1 and", "if troubled and"),
    Mutation("stop: from the first of them", _UNDO, "troubled_at if troubled else began", "began"),
    Mutation("stop: of those in a row", _UNDO, "troubled + 1 if turn.trouble else 0", "troubled + bool(turn.trouble)"),
    Mutation("stop: what one in vain leaves", _UNDO, "left = left if turn.trouble else turn.left", "left = turn.left"),
    Mutation("stop: what is left", _UNDO, "{not_all(left)}: ", ""),
    Mutation("stop: a warning where changes are left", _UNDO, "if not settled:", "if False:"),
    Mutation(
        "status: nothing is put back by none",
        "cli/tesched_cli/render/enforced.py",
        'enforced=enforced, leaving=""',
        "enforced=enforced",
    ),
    Mutation("lease: the mode that wrote last", "db/tesched_db/lease.py", 'mode=row.mode if row else ""', 'mode=""'),
    Mutation("lease: and what it leaves", "db/tesched_db/lease.py", 'leaving=row.leaving if row else ""', 'leaving=""'),
    Mutation("leaving: less and less often", _LEAVING, "if self._idle < POLLS:", "if True:"),
    Mutation(
        "settings: their age by a stopwatch",
        "slurm/tesched_slurm/commands_observer.py",
        "self.commands.unanswered.total(), self.stopwatch()",
        "self.commands.unanswered.total(), time.time()",
    ),
    Mutation("configless hosts", "slurm/tesched_slurm/run_command.py", '"SLURM_CONF_SERVER", ', ""),
    Mutation("found: a share for all", _FOUND, "if new and self.served():", "if new:"),
    Mutation(
        "found: a pause as long as the test", _FOUND, "max(60.0 / per_minute - took_s, took_s)", "60 / per_minute"
    ),
    Mutation("found: no test under a limit", _FOUND, "and settings.rate_limit is not None", "and False"),
    Mutation("found: no test while nothing can be preempted", _FOUND, "and not preempts()", "and False"),
    Mutation("found: no test while tesched is paused", _LOOP, "self.mode is Mode.OBSERVE or paused:", "False:"),
    Mutation(
        "found: a state folder that is moved",
        _FOUND,
        "elif self._watch is None or self._watch.folders.folder != folder:",
        "elif self._watch is None:",
    ),
    Mutation("found: tests that fail come less often", _FOUND, "min(2.0 ** min(self._failed, 6), MOST_S)", "1.0"),
    Mutation(
        "found: no poll beside the hook's",
        "daemon/tesched_daemon/wakeup.py",
        "if not again and self._again is not None:",
        "if False:",
    ),
    Mutation("found: a job that goes is none", _SIGNS, "(now.links, now.size) >= (before.links, before.size)", "True"),
    Mutation("found: one that came before the first call", _SIGNS, "return before is None or any(", "return any("),
    Mutation(
        "found: a count set to 0 is no job",
        _SIGNS,
        "self._count != before and self._count > 0",
        "self._count != before",
    ),
    Mutation("rest: ends that count", _OBSERVER, "return not (waits or ends or", "return not (waits or"),
    Mutation("rest: a record that a text has foreseen", _OBSERVER, "count - known.count > len(new) or ", ""),
    Mutation("rest: records are counted", _OBSERVER, "count == self.count and ", ""),
    Mutation("rest: polls are whole while a TE job waits", _REST, "why is None or why[0] in _UNKNOWN", "False"),
    Mutation("rest: a limit ends none", _REST, "why is None or why[0] in _UNKNOWN", "True"),
    Mutation("rest: a user's hold ends none", _REST, "change.dry or waits)", "change.dry)"),
    Mutation("rest: polls are whole while an order is open", _REST, "bool(memory.orders or ", "bool("),
    Mutation("rest: and the poll that finds it", _LOOP, "and self._is_more_due(seen, memory)", "and not seen.nodes"),
    Mutation("rest: polls are whole after one that failed", _LOOP, "self._failures > 0 or ", ""),
    Mutation(
        "rest: a BE policy's polls are whole",
        _REST,
        "or not all(entry.policy.serves_te for entry in policies)",
        "or not policies",
    ),
    Mutation(
        "rest: a TE job is found no later than by default",
        _REST,
        "min((at - self._since) * PART, REST_S)",
        "(at - self._since) * PART",
    ),
    Mutation("rest: a new waiting job is read at once", _OBSERVER, " or any(lines[line] for line in new)", ""),
    Mutation(
        "rest: what no job shows is read in time",
        _OBSERVER,
        "min(max(known.whole_at - self._changed_at, YOUNG_S), OLD_S)",
        "1e9",
    ),
    Mutation("garbage: none is searched for in a turn", _GARBAGE, "    gc.disable()\n", "    pass\n"),
    Mutation("garbage: it is searched for after a turn", _GARBAGE, "        gc.enable()\n", "        pass\n"),
    Mutation("garbage: what is kept is searched no more", _GARBAGE, "    gc.freeze()\n", "    pass\n"),
    Mutation("garbage: a turn that saw nothing is not it", _SERVICE, " and turn.saw:", ":"),
    Mutation(
        "refusals: candidates of so many are written",
        _REFUSALS,
        "len(preemptors) == MOST_PREEMPTORS",
        "False",
    ),
    Mutation("refusals: what is left out is kept up to date", _REFUSALS, "if row.more != refusal.more:", "if False:"),
    Mutation("refusals: so many are written one by one", _REFUSALS, "candidates <= MOST_CANDIDATES", "True"),
    Mutation(
        "refusals: what is left out is counted", "core/tesched_core/model/decision.py", "len(rows) - len(named)", "0"
    ),
    Mutation(
        "refusals: explain counts what is left out",
        "cli/tesched_cli/render/considered.py",
        "0 if by_preemptor else sum(refusal.more for refusal in members)",
        "0",
    ),
    Mutation(
        "squeue: a record with other separators alone is known",
        _COLUMNS,
        "record.replace(separator, self.mark)",
        "record",
    ),
    Mutation(
        "squeue: a record's separators count",
        _COLUMNS,
        "record.replace(separator, self.mark)",
        'record.replace(separator, "")',
    ),
    Mutation(
        "squeue: a hash alone is no job's record",
        _COLUMNS,
        "if row is None or not record.startswith(as_printed(row.job_id) + separator):",
        "if row is None:",
    ),
    Mutation(
        "scontrol: a line that is cut is awaited", _DETAILS, "raise _CutError\n\n    def next", "pass\n\n    def next"
    ),
    Mutation(
        "scontrol: a record ends with the next one", _DETAILS, "if after is None and not self.ended:", "if False:"
    ),
    Mutation("scontrol: a record that ends with a piece", _DETAILS, "(said.ended and end == len", "(end == len"),
    Mutation(
        "scontrol: the line that a piece ends in", _DETAILS, r'max(position, answer.rfind(b"\n") + 1)', "len(answer)"
    ),
    Mutation("scontrol: a piece begins with a line", _DETAILS, r'answer.rfind(b"\n", 0, position) + 1', "position"),
    Mutation("an answer is searched in ever larger pieces", _PIECES, "if self._size >= 2 * self._left:", "if True:"),
    Mutation("reading an answer is none of its command's time", _PROCESS, "until + kept.handing_s -", "until -"),
    Mutation("a flood is not read", _PROCESS, "elif piece and self.said <= self.most_out:", "elif piece:"),
    Mutation(
        "squeue: what was not in the last answer is forgotten",
        _COLUMNS,
        "self._by_content, self._now = self._now, {}",
        "self._by_content |= self._now",
    ),
    Mutation(
        "store: other traits of an unchanged job are written",
        _JOB_ROWS,
        "    found |= dict.fromkeys(_others(snapshot.traits, before.traits))\n",
        "",
    ),
    Mutation(
        "store: traits that are not known any more are written",
        _JOB_ROWS,
        "[] if then.keys() <= now.keys() else",
        "[] if then else",
    ),
    Mutation(
        "store: a job that comes as another one goes is written",
        _OTHERS,
        "list(islice(now, len(then))) == list(then)",
        "len(now) >= len(then)",
    ),
    Mutation(
        "store: a job that goes as another one comes is gone", _JOB_ROWS, "len(self.jobs) + new >", "len(self.jobs) >"
    ),
    Mutation(
        "store: since when an unchanged job is idle is written",
        _JOB_ROWS,
        "dict.fromkeys(job_id for job_id, _ in snapshot.idle_since.items() ^ before.idle_since.items())",
        "{}",
    ),
    Mutation(
        "store: a job that is gone counts no more",
        _JOB_ROWS,
        "            self._count.subtract(known.kind for known in gone)\n",
        "",
    ),
    Mutation(
        "store: a job that is seen again counts",
        _JOB_ROWS,
        "            self._count.update(known.kind for known in back.values())\n",
        "",
    ),
    Mutation(
        "store: traits of a job that has changed are written",
        _JOB_VALUES,
        "(traits is not traits_now and traits != traits_now) or job.comment",
        "job.comment",
    ),
    Mutation("store: an array has values of one type", _MANY_ROWS, "return [*map(self._value, found)]", "return found"),
    Mutation("store: a bool is no number", _MANY_ROWS, "isinstance(value, bool) or not", "not"),
    Mutation("store: a wide row counts for more", _MANY_ROWS, "MOST_VALUES // columns", "1000"),
    Mutation("store: one row at least a statement", _MANY_ROWS, "columns, 1)", "columns, 0)"),
    Mutation("store: JSON that fails is a row's error", _MANY_ROWS, "except (TypeError, ValueError)", "except OSError"),
    Mutation(
        "store: the log shrinks", "db/tesched_db/engine.py", "journal_size_limit = {MOST", "journal_size_limit = -{MOST"
    ),
    Mutation("workload: what is hardly drawn", _WORKLOAD, "most) >= LEAST_SHARE", "most) > 0"),
    Mutation("workload: a mean without a spread", _WORKLOAD, "float(least <= mean <= most)", "1.0"),
    Mutation("workload: a demand is above 0", _WORKLOAD, "*_MEANS):", "):"),
    Mutation("workload: so many jobs at most", "sim/tesched_sim/workloads/beyond.py", "if count > most:", "if False:"),
    Mutation("tables: a head is not broken", _NARROW, "max(head.minimum, least)", "least"),
    Mutation("tables: a short cell is not broken", _NARROW, "max(head.minimum, least)", "head.minimum"),
    Mutation("tables: a long word is", _NARROW, "min(one.minimum, LONGEST_WHOLE)", "one.minimum"),
    Mutation("tables: a column isn't to be wrapped", _NARROW, "most if column.no_wrap else", ""),
    Mutation("tables: gaps are a table's own", _NARROW, "(left + right)", "2"),
    Mutation("tables: a row may be a list", _NARROW, "if sum(least) > free:", "if False:"),
    Mutation("tables: a wider terminal has a wider one", _NARROW, "column.width = None", "pass"),
    Mutation(
        "explain: no policy is imported without need", _REMEMBERED, "if not story.policy_states:", "if story is None:"
    ),
    Mutation("stop: more time as long as something is put back", _UNDO, "if _puts_back(turn, left):", "if True:"),
    Mutation("stop: what is seen to be put back counts", _UNDO, "turn.left < left_before", "False"),
    Mutation("stop: a turn with trouble leaves nothing", _UNDO, "if not turn.trouble:", "if True:"),
    Mutation("errors: stderr may be full", _ERRORS, "if self._failed is not None:", "if False:"),
    Mutation("errors: a status is kept", _ERRORS, "sys.exit(self._failed)", "sys.exit(2)"),
    Mutation(
        "errors: output and stderr may be full",
        _ERRORS,
        "            except OSError:\n",
        "            except KeyError:\n",
    ),
    Mutation("errors: an encoding may lack a character", _ERRORS, '{"strict", "surrogateescape"}', "set()"),
    Mutation("store: a list is one value of an array", _MANY_ROWS, ", dimensions=1", ""),
    Mutation("store: text that no database takes", _MANY_ROWS, "if one is not None)", "if False)"),
    Mutation("store: a request that has changed is written", _JOB_VALUES, "job.request != job_now.request", "False"),
    Mutation("store: a new name is written", _JOB_VALUES, "_SUBMITTED(job) != _SUBMITTED(job_now)", "False"),
    Mutation("store: another comment of a job counts", _JOB_VALUES, " or job.comment != job_now.comment", ""),
)
