"""sbatch's options, as getopt reads them from its command line, and from the `#SBATCH` lines of a script.

Tried on 22.05.8 and 26.05.5. The command line comes before the script, whatever their order. The words of all of a
component's `#SBATCH` lines are one command line to sbatch: of the last option of a line the value may be on the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

_MAGIC = "#SBATCH"
#: word at the head of an option line, in any case, with which a heterogeneous job's next component begins
_NEXT_COMPONENT = frozenset({"hetjob", "packjob"})
#: what C takes for blanks: no-break spaces, among others, are none
_BLANKS = " \t\n\v\f\r"
_BARE = re.compile(rf"[^{_BLANKS}]+")
#: lines that sbatch reads besides, unless it is given --ignore-pbs
_PBS = "#PBS"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: sbatch's long options that take the next word as their value, and those that do not (they are switches, or take a
#: value after `=` alone)
TAKE_A_WORD = _names(
    """
    account acctg-freq array autocomplete batch bb bbf begin chdir cluster cluster-constraint clusters comment
    constraint container container-id container-type context core-spec cores-per-socket cpu-freq cpus-per-gpu
    cpus-per-task deadline delay-boot dependency distribution error exclude export export-file extra
    extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
    hint input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mem-update mincpus network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition power prefer priority profile
    qos reservation resources segment signal sockets-per-node switches tasks-per-node thread-spec
    threads-per-core time time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap
    """
)
STAND_ALONE = _names(
    """
    consolidate-segments contiguous exclusive external get-user-env help hold ignore-pbs nice no-kill
    no-requeue oom-kill-step overcommit oversubscribe parsable propagate quiet reboot requeue resv-ports
    spread-job spread-segments stepmgr test-only usage use-min-nodes verbose version wait
    """
)
LETTERS_TAKE_A_WORD = frozenset("abcdeimnopqtwxABCDFGJLMNS")
LETTERS_STAND_ALONE = frozenset("hsvHOQVW")
#: `-kno`: what follows it in its word is its own
LETTERS_WITH_THEIR_WORD = frozenset("k")
LETTER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "A": "account",
        "B": "extra-node-info",
        "C": "constraint",
        "D": "chdir",
        "F": "nodefile",
        "G": "gpus",
        "H": "hold",
        "J": "job-name",
        "L": "licenses",
        "M": "clusters",
        "N": "nodes",
        "O": "overcommit",
        "Q": "quiet",
        "S": "core-spec",
        "V": "version",
        "W": "wait",
        "a": "array",
        "b": "begin",
        "c": "cpus-per-task",
        "d": "dependency",
        "e": "error",
        "h": "help",
        "i": "input",
        "k": "no-kill",
        "m": "distribution",
        "n": "ntasks",
        "o": "output",
        "p": "partition",
        "q": "qos",
        "s": "oversubscribe",
        "t": "time",
        "v": "verbose",
        "w": "nodelist",
        "x": "exclude",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SbatchOption:
    """One option."""

    #: its long name, without dashes; of one that is not known, what stands there
    name: str
    #: None where it has none
    value: str | None = None
    #: number of its line in the script; None on the command line, and of one of the environment
    line: int | None = None
    #: the environment variable that says it
    variable: str = ""

    @property
    def is_known(self) -> bool:
        """Check whether sbatch has it by itself, or a name that begins so; else a plugin's (SPANK) may."""
        return any(name.startswith(self.name) for name in TAKE_A_WORD | STAND_ALONE)

    @property
    def place(self) -> str:
        """Place where it was said."""
        if self.variable:
            return f"in the environment ({self.variable})"
        return "on the command line" if self.line is None else f"in line {self.line}"


class UnknownOptionError(ValueError):
    """An option of a plugin's, of which it is not known whether the next word is its value."""


def read_options(
    words: Sequence[str], lines: Sequence[int] | None = None, *, taken: bool = False
) -> tuple[tuple[SbatchOption, ...], tuple[str, ...]]:
    """Return the options, and the words from the first that is none. Raises UnknownOptionError.

    `lines` are the words' lines in a script, if they are of one. With `taken` sbatch has taken these words of a script,
    in which it refuses a word that is no option and no value: one behind an option that is not known is its value, and
    nothing is raised.
    """
    found: list[SbatchOption] = []
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return tuple(found), tuple(words[place + 1 :])
        if word == "-" or not word.startswith("-"):
            break
        following = words[place + 1] if place + 1 < len(words) else None
        line = None if lines is None else lines[place]
        read = _long if word.startswith("--") else _short
        try:
            option, takes = read(word, following, taken=taken)
        except UnknownOptionError as error:
            raise error if line is None else UnknownOptionError(f"line {line}: {error}") from error
        found += [SbatchOption(name=name, value=value, line=line) for name, value in option]
        place += 2 if takes else 1
    return tuple(found), tuple(words[place:])


def options_in(script: str) -> tuple[SbatchOption, ...]:
    """Return the options on a script's `#SBATCH` lines, of its first component. Raises UnknownOptionError.

    A word that is no option and no value ends them: sbatch refuses such a script.
    """
    words: list[str] = []
    lines: list[int] = []
    ends_at = next(component_lines(script), None)
    for line, of_line in option_lines(script):
        if line == ends_at:
            break
        words += of_line
        lines += [line] * len(of_line)
    return read_options(words, lines)[0]


def _long(word: str, following: str | None, *, taken: bool) -> tuple[list[tuple[str, str | None]], bool]:
    given, equals, value = word[2:].partition("=")
    name, takes_a_word = long_option(given)
    if equals:
        return [(name or given, value)], False
    if takes_a_word is None and following is not None and not following.startswith("-"):
        if not taken:
            raise UnknownOptionError(f"whether --{given} takes a value is not known: write --{given}=VALUE if it does")
        takes_a_word = True
    return [(name or given, following if takes_a_word else None)], bool(takes_a_word)


def _short(word: str, following: str | None, *, taken: bool) -> tuple[list[tuple[str, str | None]], bool]:
    """Return the options of one word of letters, such as -Hn4."""
    found: list[tuple[str, str | None]] = []
    for place, letter in enumerate(word[1:], 1):
        name, rest = LETTER_NAMES.get(letter, letter), word[place + 1 :]
        if letter in LETTERS_TAKE_A_WORD:
            return [*found, (name, rest or following)], not rest
        if letter in LETTERS_WITH_THEIR_WORD:
            return [*found, (name, rest or None)], False
        if letter not in LETTERS_STAND_ALONE and taken:
            takes = not rest and following is not None and not following.startswith("-")
            return [*found, (name, following if takes else rest or None)], takes
        if letter not in LETTERS_STAND_ALONE:
            raise UnknownOptionError(f"sbatch has no option -{letter}")
        found.append((name, None))
    return found, False


def without_quiet(words: Sequence[str]) -> tuple[str, ...]:
    """Return options of sbatch's command line without --quiet. Raises UnknownOptionError."""
    kept: list[str] = []
    place = 0
    while place < len(words):
        word, following = words[place], words[place + 1] if place + 1 < len(words) else None
        takes = False
        if word.startswith("--") and word != "--":
            options, takes = _long(word, following, taken=False)
            word = "" if options[0][0] == "quiet" else word
        elif word.startswith("-") and word not in {"-", "--"}:
            _, takes = _short(word, following, taken=False)
            alone = next((at for at, one in enumerate(word[1:], 1) if one not in LETTERS_STAND_ALONE), len(word))
            word = word[:alone].replace("Q", "") + word[alone:]
            word = "" if word == "-" else word
        kept += [word] if word else []
        value = words[place + 1 : place + 2] if takes else ()
        kept += value
        place += 1 + len(value)
    return tuple(kept)


def long_option(given: str) -> tuple[str, bool | None]:
    """Return the whole name of an option, and whether it takes the next word; None where that is not known.

    getopt takes every beginning of a name that no other option shares.
    """
    names = TAKE_A_WORD | STAND_ALONE
    meant = {given} if given in names else {name for name in names if name.startswith(given)}
    kinds = {name in TAKE_A_WORD for name in meant}
    if len(kinds) != 1:
        return "", None
    return meant.pop() if len(meant) == 1 else "", kinds.pop()


def option_lines(script: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of each `#SBATCH` line, and its number."""
    return ((number, [word for word in _words(line) if word is not None]) for number, line in _of_options(script))


def component_lines(script: str) -> Iterator[int]:
    """Yield the number of each line at which a heterogeneous job's next component begins."""
    return (number for number, line in _of_options(script) if next(_words(line), "") is None)


def _of_options(script: str) -> Iterator[tuple[int, str]]:
    return ((number, line.removeprefix(_MAGIC)) for number, line in _head(script) if line.startswith(_MAGIC))


def pbs_lines(script: str) -> Iterator[int]:
    """Yield the number of each `#PBS` line that sbatch reads: -q, -N, -l walltime and others are options, too."""
    return (number for number, line in _head(script) if line.startswith(_PBS))


def _head(script: str) -> Iterator[tuple[int, str]]:
    """Yield the lines before the first command, where sbatch ends its reading, and their numbers."""
    for number, line in enumerate(script.split("\n"), 1):
        begins = line.lstrip(_BLANKS)
        if begins and not begins.startswith("#"):
            return
        yield number, line


def _words(text: str) -> Iterator[str | None]:
    """Yield the words of an option line as sbatch splits them; at last None, where a word begins the next component.

    They end with a comment, an empty word or a quote that is never closed.
    """
    place = 0
    while place < len(text):
        if text[place] in _BLANKS:
            place += 1
            continue
        bare = _BARE.match(text, place)
        if bare is not None and bare[0].lower() in _NEXT_COMPONENT:
            yield None
            return
        word, place = _word_at(text, place)
        if not word:
            return
        yield word


def _word_at(text: str, place: int) -> tuple[str, int]:
    """Return the word that begins there, and where it ends; an empty one where a comment begins, or it is not closed.

    A backslash takes the next character as it is. A blank, too: 22.05 refuses most scripts with one.
    """
    word, quote, escaped = "", "", False
    while place < len(text) and (quote or escaped or text[place] not in _BLANKS):
        character = text[place]
        if escaped:
            word, escaped = word + character, False
        elif character == "\\":
            escaped = True
        elif quote:
            quote, word = ("", word) if character == quote else (quote, word + character)
        elif character in "\"'":
            quote = character
        elif character == "#":
            break
        else:
            word += character
        place += 1
    return "" if quote else word, place
