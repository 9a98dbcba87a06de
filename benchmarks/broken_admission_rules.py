"""The rules of the submission hook's holds and of its file, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_HOLD, _HOOK = "core/tesched_core/fields/hold.py", "core/tesched_core/model/hook.py"
_FILE, _RULES = "daemon/tesched_daemon/admission_file.py", "daemon/tesched_daemon/admission_rules.py"
_OWN, _CHECKS = "daemon/tesched_daemon/own_file.py", "daemon/tesched_daemon/config_checks.py"
_CONFIG, _READERS = "daemon/tesched_daemon/config.py", "daemon/tesched_daemon/config_readers.py"
_REACH = "daemon/tesched_daemon/doctor/reach.py"
_RANGES = "core/tesched_core/model/ranges.py"
_CHANGE = "core/tesched_core/model/change.py"
_OTHER, _MEMORY = "core/tesched_core/fields/other_hand.py", "core/tesched_core/model/memory.py"
_TE_LIMITS, _STEP = "core/tesched_core/guard/te_limits.py", "core/tesched_core/step.py"
_LUA = "systemd/job_submit.lua"
_TE_QUEUE, _DOCTOR = "core/tesched_core/orders/te_queue.py", "daemon/tesched_daemon/hook_fit.py"

ADMISSION_MUTATIONS = (
    Mutation("what the unit hides: in the daemon's own view", _REACH, "not _is_there(_within(view, path))", "False"),
    Mutation("what the unit hides: of what is there", _REACH, "if _is_there(path) and ", "if "),
    Mutation("what the unit hides: another folder of the name", _REACH, "or here == there:", "or True:"),
    Mutation("what the unit hides: where a file is written", _REACH, "_hidden(view, folder, key) or ", ""),
    Mutation("what the unit lets write", _REACH, "_read_only(_within(view, folder)):", "_read_only(folder):"),
    Mutation(
        "a file that the daemon cannot read: its group", _READERS, " if status.st_gid == gid else ", " if gid else "
    ),
    Mutation("a file that the daemon cannot read: for root alone", _READERS, "os.geteuid() or ", ""),
    Mutation("let through: at all", _OTHER, "elif one.value == STANDS and", "elif False and"),
    Mutation("let through: what stands", _OTHER, "(one.taken_at or 0.0) < SAVED_S", "(one.taken_at or 0.0) < 0"),
    Mutation("let through: the nice value", _OTHER, "return job.nice == one.nice and has", "return has"),
    Mutation("let through: the hook's mark", _OTHER, " and has_hook_mark(job) == one.marked", ""),
    Mutation("let through: what tesched sets", _OTHER, "return not set_by_us and", "return"),
    Mutation("let through: what it sets of an array", _OTHER, "{job.job_id, job.array_job_id}", "{job.job_id}"),
    Mutation("let through: not in shadow mode", _OTHER, "one.restored or one.dry:", "one.restored:"),
    Mutation("let through: what is recorded alone", _HOLD, "held[action.job_id] = replace(one, dry=True)", "pass"),
    Mutation("let through: for one run", _CHANGE, " and job.restarts == one.restarts", ""),
    Mutation("let through: its run is over", _OTHER, "in known) else replace(one, value=FREE)", "in known) else one"),
    Mutation("let through: the last task alone", _OTHER, " and tasks_in(job) > 1", ""),
    Mutation("let through: an array with its tasks", _CHANGE, "(one.of_array and", "(False and"),
    Mutation("let through: not the array", _CHANGE, "(one.of_array and", "("),
    Mutation("let through: a task that is held on", _OTHER, "one.of_array and not any(", "one.of_array or any("),
    Mutation("holds: a task that leaves its array", _HOLD, "if is_new and task.held and", "if False and"),
    Mutation(
        "holds: no task in shadow mode",
        _HOLD,
        "if one.restored or one.dry or one.shown",
        "if one.restored or one.shown",
    ),
    Mutation("holds: a task that has run", _HOLD, "not in held and not task.restarts", "not in held"),
    Mutation(
        "holds: what left before the rest was released",
        _HOLD,
        "_take_over_tasks(context)\n        see_other_hands(context)\n        self._take_over(context)\n\n",
        "_take_over(context)\n        see_other_hands(context)\n        self._take_over_tasks(context)\n\n",
    ),
    Mutation("holds: a task that was held before", _HOLD, "task.job_id > one.shown and", ""),
    Mutation(
        "let through: undo polls first",
        _HOLD,
        "see_other_hands(context)\n        self._take_over(context)\n        held",
        "self._take_over(context)\n        held",
    ),
    Mutation("let through: the clock set back", _OTHER, " or one.taken_at > context.now", ""),
    Mutation("hold: the clock set back", _HOLD, "0.0 <= context.now - one.at <=", "context.now - one.at <="),
    Mutation("let through: its own release", _OTHER, "held[job_id] = replace(one, value=FREE)", "pass"),
    Mutation("let through: a release that fails", _HOLD, "held[action.job_id] = replace(one, value=HELD)", "pass"),
    Mutation("let through: it is kept", _HOLD, "if one.value == LET_THROUGH:", "if False:"),
    Mutation("let through: an array's tasks", _MEMORY, "in (job.job_id, job.array_job_id) if", "in (job.job_id,) if"),
    Mutation(
        "let through: it is not held", _TE_QUEUE, "_let_through(late) if memory.is_let_through(job) else late", "late"
    ),
    Mutation("let through: it counts", _TE_LIMITS, "held.add(wanted._replace(cpus=0, gpus=0))", "pass"),
    Mutation("let through: not in others' share", _TE_LIMITS, "wanted._replace(cpus=0, gpus=0)", "wanted"),
    Mutation(
        "let through: first", _TE_LIMITS, "return job.job_id not in let_through, job.submit", "return False, job.submit"
    ),
    Mutation("submitted: at all", _TE_LIMITS, "return most > 0 and held", "return False and held"),
    Mutation(
        "submitted: by user", _TE_LIMITS, "held.submitted[wanted.user] + wanted", "held.submitted.total() + wanted"
    ),
    Mutation("submitted: each task", _TE_LIMITS, "gpus, tasks_in(job))", "gpus, 1)"),
    Mutation(
        "submitted: what awaits something else",
        _TE_LIMITS,
        "if job.job_id not in may_wait or not 0",
        "if job.job_id in may_wait and not 0",
    ),
    Mutation("submitted: what runs", _TE_LIMITS, "            held.submitted[job.user] += 1\n", ""),
    Mutation(
        "submitted: one too many is none",
        _TE_LIMITS,
        " or not 0 < limits.max_submitted_per_user < count[job.user] + tasks:",
        " or True:",
    ),
    Mutation("submitted: an array's tasks", _TE_LIMITS, "tasks_in(job) if job.pending else 1", "1"),
    Mutation("submitted: it holds none", _STEP, "Admission(until=inf, most_s=inf", "Admission(until=0.0, most_s=0.0"),
    Mutation("submitted: counted anew", _FILE, "if is_counted or one.is_counted:", "if False:"),
    Mutation("let through: in the same cycle", _STEP, "in known or memory.is_let_through(job):", "in known:"),
    Mutation("hook: its holds are taken over", _HOLD, "if job.pending and job_id not in held:", "if False:"),
    Mutation(
        "hook: before it is decided",
        _HOLD,
        "        self._take_over(context)\n\n    def carry",
        "\n    def carry",
    ),
    Mutation(
        "hook: by undo, too",
        _HOLD,
        "        self._take_over(context)\n        held =",
        "        held =",
    ),
    Mutation("hook: one that was released", _HOLD, "restored=not is_held_by_hook(job)", "restored=False"),
    Mutation(
        "hook: what stays of its mark", _HOLD, "held[job_id] = _without_mark(over, job, context)", "del held[job_id]"
    ),
    Mutation(
        "hook: its mark is removed later",
        _HOLD,
        "return replace(one, at=context.now)\n\n\ndef _must",
        "return one\n\n\ndef _must",
    ),
    Mutation("hook: no end of that", _HOLD, " or over_s > UNMARK_FOR_S", ""),
    Mutation("hook: not of one that its user holds", _HOLD, "if job.held or tried_s", "if tried_s"),
    Mutation("hook: undo tries it anew", _HOLD, "held[job_id] = replace(one, since=context.now)", "pass"),
    Mutation("hook: nothing is to be put back", _HOLD, "one.by is None and not one.restored)", "one.by is None)"),
    Mutation("hook: no user's own hold", _HOLD, "and not is_held_by_hook(job):", "and False:"),
    Mutation("hook: its user's reason", _HOLD, "== HELD_BY_US or is_held_by_hook(job))", "== HELD_BY_US)"),
    Mutation("hook: held anew once", _HOLD, " and context.now - one.at > RESEND_AFTER_S\n\n", "\n\n"),
    Mutation(
        "hook: held anew as an operator",
        _HOLD,
        "return is_held_by_hook(job) and job.reason",
        "return False and job.reason",
    ),
    Mutation(
        "hold: one of its user's is not held anew",
        _HOLD,
        "return is_held_by_hook(job) and job.reason",
        "return job.held and job.reason",
    ),
    Mutation("hook: another's hold", _HOLD, "        return not job.held\n", "        return True\n"),
    Mutation("hook: by its mark alone", _HOOK, "return job.admin_comment == HOOK_MARK or", "return True or"),
    Mutation("hook: beside the site's text", _HOOK, 'job.admin_comment.endswith(f"', 'job.admin_comment.endswith(f"x'),
    Mutation("hook: not after a run", _HOOK, " and job.restarts == 0", ""),
    Mutation("hook: what explain says", _TE_QUEUE, "RefusalCode.HELD and is_held_by_hook(job)", "RefusalCode.OPEN"),
    Mutation("admission file: sooner", _FILE, "or now < one.until > admission.until", ""),
    Mutation("admission file: it holds for a while", _FILE, "_is_used(one.at, one.valid, now) or", "False or"),
    Mutation(
        "admission file: a later time", _FILE, "return admission.until > max(one.until, now) and", "return False and"
    ),
    Mutation("admission file: no write for the past", _FILE, "max(one.until, now) and", "one.until and"),
    Mutation("admission file: other rules", _FILE, "or classes != one.classes", ""),
    Mutation("admission file: another's hand", _FILE, "or one.stat != self._stat()", ""),
    Mutation("admission file: only its own", _FILE, "if self._written is not None:", "if True:"),
    Mutation(
        "admission file: without a bound",
        _FILE,
        "            self.withdraw()\n            return",
        "            return",
    ),
    Mutation("admission file: the failure", _FILE, "        self.failure = failure\n", ""),
    Mutation("admission file: what is too long", _FILE, "if name in TEXTS:", "if False:"),
    Mutation("admission file: that it is too long", _FILE, "            if unknown\n", "            if False\n"),
    Mutation(
        "admission file: a path of none",
        _FILE,
        '(OSError, ValueError) as error:\n            self._failed("w',
        'OSError as error:\n            self._failed("w',
    ),
    Mutation("own files: what is another's", _OWN, "and (why := obstacle(path, self.word))", 'and (why := "")'),
    Mutation("own files: what is no file", _OWN, "    if not stat.S_ISREG(kind):\n", "    if False:\n"),
    Mutation("own files: what one has put there", _OWN, "if not self._is_written(path) and", "if"),
    Mutation("own files: held open", _OWN, "        self._hold(handle)\n", "        os.close(handle)\n"),
    Mutation("own files: beside it, too", _OWN, "            self._refuse(new)\n", "            pass\n"),
    Mutation("sockets: a folder that is missing", _CHECKS, 'f"there is no folder {path.parent}"', '""'),
    Mutation("sockets: the unit's own folder", _CHECKS, " or where.parent == _RUNTIME:", ":"),
    Mutation(
        "config: all complaints",
        _CONFIG,
        "yield _blamed(tree, key, what)\n",
        "yield _blamed(tree, key, what)\n            return\n",
    ),
    Mutation("config: none of a comparison with a default", _CONFIG, "and gone.isdisjoint([*beside,", "and ([*beside,"),
    Mutation("config: a slip hides the lacking key", _CONFIG, "if not slipped and gone", "if gone"),
    Mutation(
        "config: bad values beside unknown keys",
        _CONFIG,
        "unknown += _complaints(tree, str(error), unknown)",
        "unknown = unknown or [*_complaints(tree, str(error), unknown)]",
    ),
    Mutation(
        "config: by whole keys",
        _CONFIG,
        'gone.add(_LAST_INDEX.sub("", key))',
        'gone.add(f"{table}.{name}"); gone.update(f"{one}.{name}" for one in tree.values)',
    ),
    Mutation("config: a bounded depth", "daemon/tesched_daemon/config_files.py", "    if level:\n", "    if False:\n"),
    Mutation(
        "config: no pipe, no device",
        "daemon/tesched_daemon/config_trust.py",
        "if not stat.S_ISREG(status.st_mode):",
        "if False:",
    ),
    Mutation(
        "config: a pipe that is named",
        "daemon/tesched_daemon/config_trust.py",
        "if not waits or stat.S_ISDIR(status.st_mode):",
        "if True:",
    ),
    Mutation(
        "config: no device without end",
        "daemon/tesched_daemon/config_files.py",
        "if len(text) > _LARGEST:",
        "if False:",
    ),
    Mutation(
        "config: no pipe at a reload", "daemon/tesched_daemon/reload.py", "(self.path, waits=False)", "(self.path)"
    ),
    Mutation(
        "config: jobs, too, go by the last file", "report/tesched_report/where.py", "in reversed(said)", "in said"
    ),
    Mutation(
        "config: jobs go by the files that they may read",
        "report/tesched_report/where.py",
        "except (OSError, ValueError, AttributeError, RecursionError):",
        "except FileNotFoundError:",
    ),
    Mutation(
        "config: jobs may not read conf.d",
        "report/tesched_report/where.py",
        "except OSError:\n        return []",
        "except FileNotFoundError:\n        return []",
    ),
    Mutation("intervals: nan is none", "cli/tesched_cli/common.py", "if isnan(number):", "if False:"),
    Mutation(
        "check: a number of very many digits",
        "daemon/tesched_daemon/submission/read.py",
        'if re.search(r"\\d{11}", text):',
        "if False:",
    ),
    Mutation("own files: the configuration's are others", _CHECKS, "if path.samefile(file):", "if False:"),
    Mutation("bound: mode shadow is told", _CHECKS, "if config.mode is not Mode.ENFORCE:", "if False:"),
    Mutation("bound: no TE job is told", _CHECKS, "if not config.classes.makes_te:", "if False:"),
    Mutation("bound: the plugin is told", _CHECKS, "guard.lever is YieldBy.PLUGIN:", "False:"),
    Mutation(
        "ranges: nothing beyond",
        _RANGES,
        "return self.least <= value <= self.most and",
        "return value >= self.least and",
    ),
    Mutation("ranges: beside None", _RANGES, "elif type(None) in get_args(hint):", "elif False:"),
    Mutation("admission rules: one letter", _RULES, 'b"[^%b][%b]*" % (_CONTINUED, _CONTINUED)', 'b"."'),
    Mutation("admission rules: no pattern of Lua's", _RULES, 'letter if plain else f"%{letter}"', "letter"),
    Mutation("admission rules: all up to the last", _RULES, "rules[: last + 1]", "rules[:last]"),
    Mutation(
        "admission rules: what is TE by default", _RULES, "if classes.default_class is not JobClass.TE:", "if True:"
    ),
    Mutation("admission rules: the user's bounds", _RULES, "yield from _conditions(classes.user_word.within)", "pass"),
    Mutation(
        "admission: doctor knows the old hook", _DOCTOR, "if FORM not in hook or _NEWEST not in hook:", "if False:"
    ),
    Mutation("admission: doctor reads no comment", _DOCTOR, "hook = _code(path", "hook = str(path"),
    Mutation("admission: doctor wants a call", _DOCTOR, "elif not _CALL.search(hook):", "elif False:"),
    Mutation("admission: doctor wants the call of changes", _DOCTOR, "if not _MODIFY_CALL.search(hook):", "if False:"),
    Mutation("admission: doctor compares the paths", _DOCTOR, "not in hook or f", "not in hook and f"),
    Mutation("the hook's time: a list of tasks", _LUA, "if #text > MOST_ARRAY_TEXT then", "if false then"),
    Mutation("the hook's time: an index of a task", _LUA, "number <= MOST_INDEX and number or nil", "number"),
    Mutation("the hook's time: tasks that stand there again", _LUA, "if repeats > MOST_REPEATS then", "if false then"),
    Mutation(
        "the hook's time: a list of GPUs",
        _LUA,
        'local text = job_desc[name] or ""\n        if #text > MOST_TEXT',
        'local text = job_desc[name] or ""\n        if false',
    ),
    Mutation("the hook's time: a field is read once", _LUA, "if not known[name] then", "if true then"),
    Mutation("the hook's GPUs: no other GRES", _LUA, 'name == "gpu" or name:find("^gpu:")', 'name:find("^gpu")'),
    Mutation("the hook's GPUs: what it may be read as otherwise", _LUA, 'text:find("[^%w_:/=,.-]") or ', ""),
    Mutation(
        "a request: a count of 0 is passed over",
        "slurm/tesched_slurm/slurm_formats.py",
        "count or found.get(name, 0)",
        "count",
    ),
    Mutation("the hook: an account that Slurm passes over", _LUA, "tesched_any_fits(usual, globs) ~= fits", "false"),
    Mutation(
        "the hook: a reservation's partition", _LUA, 'if (job_desc.reservation or "") ~= "" then', "if false then"
    ),
    Mutation("the hook: a time limit that may be lowered", _LUA, "job_desc.time_min ~= NO_VAL and", "false and"),
    Mutation("the hook: a time limit that is raised by none", _LUA, "or low and least < low", ""),
    Mutation("the hook: a change that it can't see", _LUA, "    return is_one\n", "    return true\n"),
    Mutation(
        "the hook: a change beside a harmless one", _LUA, "value ~= nil and value ~= unchanged then", "false then"
    ),
    Mutation("the hook: a change of a number", _LUA, "and value ~= unchanged then", "then"),
    Mutation("the hook: changes of the daemon's", _LUA, "if not file or file.uids[uid] then", "if not file then"),
    Mutation(
        "classes: a limit that fell as the job started",
        "core/tesched_core/intake/classify.py",
        "if fell else now",
        "if False else now",
    ),
    Mutation(
        "classes: of a new run alone",
        "core/tesched_core/intake/classify.py",
        "before.pending and now.on_nodes and before",
        "before",
    ),
    Mutation(
        "classes: the limit that a run is stored with",
        "db/tesched_db/job_rows.py",
        "if traits is UNCLASSIFIED else traits.time_limit_s",
        "",
    ),
    Mutation("te limits: what its user may free", _TE_LIMITS, "or _may_be_freed(job)), key", "), key"),
    Mutation(
        "te limits: behind a dependency comes last",
        _TE_LIMITS,
        "in sorted(waits, key=_is_behind_another):",
        "in waits:",
    ),
    Mutation("te limits: behind one though it is held", _TE_LIMITS, "return bool(job.dependency) or ", "return "),
    Mutation("te limits: what never starts", _TE_LIMITS, " and not starts_no_more(job.reason)", ""),
    Mutation(
        "te limits: what waits for a limit is in nobody else's way",
        _TE_LIMITS,
        "if not over and (starts[job.job_id] or _is_behind_another(job)):",
        "if not over:",
    ),
)
