"""Rules of what comes from outside: files that others write, numbers of any size."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FOLLOW, _TENSORBOARD = "report/tesched_report/follow.py", "report/tesched_report/tensorboard.py"

_NOTICE, _ARRAY = "core/tesched_core/model/notice.py", "core/tesched_core/model/request.py"
_LICENCES = "daemon/tesched_daemon/submission/slurm_limits.py"

_OPTIONS = "slurm/tesched_slurm/sbatch_options.py"

_MARKS = "daemon/tesched_daemon/marks_file.py"

_TEXT, _PAGE = "sim/tesched_sim/traces/text.py", "cli/tesched_cli/page_file.py"

EDGE_MUTATIONS = (
    Mutation("page: no FIFO", _PAGE, "if path.exists() and not _ends(path):", "if False:"),
    Mutation("page: a pipe of the shell's", _PAGE, "return not path.resolve().exists()", "return False"),
    Mutation("trace: no device", _TEXT, "if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):", "if False:"),
    Mutation("trace: a line ends", _TEXT, 'if len(line.rstrip("\\r\\n")) > _LONGEST_LINE:', "if False:"),
    Mutation("barred: no more lines than the plugin takes", _MARKS, "if len(barred) > MOST_BARRED:", "if False:"),
    Mutation("barred: without their lines no mark", _MARKS, "() if self.too_many else marks", "marks"),
    Mutation("barred: too many are said", _MARKS, "        if self.too_many:\n", "        if False:\n"),
    Mutation("signal: another option's value is none", _OPTIONS, "place += 2 if takes else 1", "place += 1"),
    Mutation("signal: a plugin's option has its word", _OPTIONS, "        takes_a_word = True", "        pass"),
    Mutation("sbatch: blanks are those of C", _OPTIONS, '" \\t\\n\\v\\f\\r"', '" \\t\\n\\v\\f\\r\\u00a0"'),
    Mutation("sbatch: a command may be any but those", _OPTIONS, "line.lstrip(_BLANKS)", "line.lstrip()"),
    Mutation("sbatch: a blank may be of a word", _OPTIONS, "(quote or escaped or", "(quote or"),
    Mutation(
        "sbatch: an empty word ends its line",
        _OPTIONS,
        "        if not word:\n",
        "        if not word and text[place : place + 1] in {'#', ''}:\n",
    ),
    Mutation("sbatch: a component's word in any case", _OPTIONS, "bare[0].lower() in", "bare[0] in"),
    Mutation(
        "sbatch: a component's word is bare",
        _OPTIONS,
        "        yield word\n",
        "        if word.lower() in _NEXT_COMPONENT:\n            yield None\n            return\n        yield word\n",
    ),
    Mutation("sbatch: the first component's alone", _OPTIONS, "if line == ends_at:", "if False:"),
    Mutation("sbatch: a line's first option", _OPTIONS, "lines[place]", "lines[0]"),
    Mutation("number: a signal's is bounded", _NOTICE, " if len(text) < _LONGEST_NUMBER else None", ""),
    Mutation("number: an array's are bounded", _ARRAY, "-(\\d{1,18})(?:", "-(\\d+)(?:"),
    Mutation("number: an exit status is bounded", "slurm/tesched_slurm/shell_script.py", "[0-9]{1,18}", "[0-9]+"),
    Mutation("number: licences are bounded", _LICENCES, "count[:_DIGITS]", "count"),
    Mutation(
        "number: a user's id is bounded", "cli/tesched_cli/jobs.py", "KeyError, ValueError, Over", "KeyError, Over"
    ),
    Mutation("follow: from what was half written", _FOLLOW, "self._offset = error.whole", "pass"),
    Mutation("follow: a file is known by its head", _FOLLOW, " or not head.startswith(self._head)", ""),
    Mutation("event file: no more is kept than a record", _TENSORBOARD, 'self._rest = b""\n            raise', "raise"),
)
