"""What a batch script does about signals, as far as its text shows: its traps, and what it runs in which way.

Principle
    The text is parsed (tree-sitter's grammar of bash), never run or expanded. Which branch is taken is not known, so
    all are read. Of a program's own handlers nothing is known.

    bash runs a trap only between two commands: while a program runs in the foreground the trap waits for its end.
    `wait` is ended by the signal, so what runs in the background and is waited for leaves the trap free. `exec` puts
    the program in the shell's place, which gets what the shell would have had; srun hands it on to its tasks.

Source
    bash(1), "SIGNALS"; srun(1), "SIGNALS AND ESCAPE SEQUENCES"; tests/cluster/test_ordinary_jobs.py tries it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache

import tree_sitter_bash
from tesched_core.model.notice import signal_name
from tree_sitter import Language, Node, Parser

#: bytes of the longest script that is read: what the parser needs for one that is made for that grows with their square
MOST_BYTES = 65_536
#: seconds that it may take
_MOST_S = 5.0
#: functions that call each other are read to this depth, and so many commands
_DEPTH = 5
_MOST_COMMANDS = 20_000


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: interpreters whose scripts are read; without a first line sbatch refuses a script
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
#: those whose trap may know no SIG before a name: dash is Debian's sh
_KNOW_NO_SIG = frozenset({"sh", "dash"})
#: builtins, and what ends at once
_QUICK = _words_of(
    """
    . : [ alias basename bind break builtin cat cd chmod command conda continue cp date declare df dirname disown du
    echo env eval exit export false find free getconf getopts git grep hash head hostname id jobs kill let ln local ls
    lscpu mamba mapfile micromamba mkdir mktemp ml module mv nproc nvidia-smi popd printenv printf ps pushd pwd read
    readarray readlink readonly realpath return rm rmdir sbatch scancel scontrol sed set seq shift shopt source spack
    squeue stat tail tee test touch tr trap true type typeset ulimit umask unalias uname unset wait wc which whoami
    """
)
#: what starts another program, which is what counts
_STARTERS = frozenset({"env", "nice", "nohup", "numactl", "stdbuf", "taskset", "time", "timeout", "command"})
#: what starts steps
_STEPS = frozenset({"srun", "mpirun", "mpiexec", "orterun", "prterun"})


class How(Enum):
    """Ways in which a script runs a program."""

    FOREGROUND = auto()
    BACKGROUND = auto()
    #: in the shell's place
    EXEC = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that may take long."""

    #: as it stands there, on one line
    text: str
    line: int
    how: How
    #: it starts job steps
    is_step: bool
    #: seconds of a sleep
    sleeps_s: float | None = None
    #: what it runs is not known: a variable's value, or another script
    is_unclear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What a script does on a signal."""

    text: str
    line: int
    #: the signal does nothing (`trap '' USR1`)
    ignores: bool = False
    #: it puts its job back in the queue, submits another, or cancels its own
    requeues: bool = False
    submits: bool = False
    cancels: bool = False
    #: with which statuses it may end the script, None for one that is not plain; empty: it does not end it
    exits: frozenset[int | None] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A trap that is set (or, without a handler, taken back) for a signal; None: for one that is not plain."""

    signal: str | None
    handler: Handler | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It waits for what runs in the background."""

    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellScript:
    """What is known of a script."""

    #: what its top shell does, in the order of the text
    events: tuple[Program | Trap | Wait, ...] = ()
    #: what interprets it
    interpreter: str = ""
    #: it is no shell's: its interpreter is the one program
    is_other: bool = False
    #: lines with `#SBATCH` after the first command, which sbatch does not read
    late_options: tuple[int, ...] = ()

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return its programs."""
        return tuple(one for one in self.events if isinstance(one, Program))


class ScriptError(ValueError):
    """A script that cannot be read, in words."""


def read_script(text: str) -> ShellScript:
    """Parse a batch script. Raises ScriptError for one that no parser of ours can read."""
    try:
        return _read(text)
    except RecursionError as error:
        raise ScriptError("its commands stand in each other too deep to be read") from error


def _read(text: str) -> ShellScript:
    interpreter = _interpreter(text)
    if interpreter and interpreter not in _SHELLS:
        first = Program(text=interpreter, line=1, how=How.EXEC, is_step=False)
        return ShellScript(events=(first,), interpreter=interpreter, is_other=True)
    root = _parsed(text)
    functions = dict(_functions(root))
    events: list[Program | Trap | Wait] = []
    for count, (node, where) in enumerate(_commands(root, functions)):
        if count == _MOST_COMMANDS:
            raise ScriptError(f"it has more than {_MOST_COMMANDS} commands, functions' each time that they are called")
        name, arguments = _words(node)
        if name in {"trap", "wait"}:
            if where.is_top and name == "trap":
                events += _traps(arguments, node, functions, knows_sig=interpreter not in _KNOW_NO_SIG)
            elif where.is_top:
                events.append(Wait(line=_line(node)))
            elif name == "wait" and not where.is_behind:
                # Another shell waits, and this one for that.
                text = " ".join(_text(node).split())
                events.append(Program(text=text, line=_line(node), how=How.FOREGROUND, is_step=False))
            continue
        program = _program(node, name, arguments, is_behind=where.is_behind)
        events += [program] if program is not None else []
    commands = [_line(node) for node in root.children if node.type != "comment"]
    late = [
        _line(node)
        for node in root.children
        if node.type == "comment" and _text(node).startswith("#SBATCH") and commands and _line(node) > commands[0]
    ]
    return ShellScript(events=tuple(events), interpreter=interpreter, late_options=tuple(late))


def _interpreter(text: str) -> str:
    """Return the name of the program of the first line, without its folder and version."""
    found = re.match(r"#![ \t]*(\S+)(?:[ \t]+(.*))?", text)
    if found is None:
        return ""
    name = found[1].rpartition("/")[2]
    if name == "env":
        words = [word for word in (found[2] or "").split() if not word.startswith("-") and "=" not in word]
        name = words[0].rpartition("/")[2] if words else ""
    return name


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _parsed(text: str) -> Node:
    raw, until = text.encode(), time.monotonic() + _MOST_S
    if len(raw) > MOST_BYTES:
        raise ScriptError(f"it has {len(raw)} bytes, and at most {MOST_BYTES} are read")
    try:
        tree = _parser().parse(
            lambda at, _: raw[at : at + MOST_BYTES], progress_callback=lambda _at, _error: time.monotonic() > until
        )
    except ValueError as error:
        raise ScriptError(f"its commands could not be taken apart within {_MOST_S:g} s") from error
    return tree.root_node


def _functions(root: Node) -> Iterator[tuple[str, Node]]:
    for node in root.children:
        name = node.child_by_field_name("name") if node.type == "function_definition" else None
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if name is not None and body is not None:
            yield _text(name), body


@dataclass(frozen=True, slots=True)
class _Where:
    """Place of a command."""

    is_behind: bool = False
    #: the script's own shell runs it, none that it has started
    is_top: bool = True


def _commands(
    node: Node, functions: Mapping[str, Node], where: _Where = _Where(), depth: int = 0
) -> Iterator[tuple[Node, _Where]]:
    """Yield each command that a script may run, in its order, and where. A function's stand where it is called."""
    if node.type == "command":
        for part in node.children:
            yield from _substituted(part, functions, depth)
        name, _ = _words(node)
        if name in functions and depth < _DEPTH:
            yield from _commands(functions[name], functions, where, depth + 1)
        else:
            yield node, where
        return
    if node.type == "function_definition":
        return
    if node.type in {"subshell", "pipeline", "command_substitution", "process_substitution"}:
        where = replace(where, is_top=False)
    for place, child in enumerate(node.children):
        after = node.children[place + 1] if place + 1 < len(node.children) else None
        inner = _Where(is_behind=True, is_top=False) if after is not None and after.type == "&" else where
        yield from _commands(child, functions, inner, depth)


def _substituted(node: Node, functions: Mapping[str, Node], depth: int) -> Iterator[tuple[Node, _Where]]:
    """Yield what a command's words run first, whose end it awaits."""
    if node.type == "command_substitution":
        yield from _commands(node, functions, _Where(is_top=False), depth)
        return
    for child in node.children:
        yield from _substituted(child, functions, depth)


def _words(command: Node) -> tuple[str, list[Node]]:
    """Return a command's name, and its arguments."""
    name = command.child_by_field_name("name")
    return (_text(name) if name is not None else ""), command.children_by_field_name("argument")


def _program(node: Node, name: str, arguments: list[Node], *, is_behind: bool) -> Program | None:
    """Return the program that a command runs; None for what ends at once."""
    is_exec = name == "exec"
    if is_exec and not arguments:
        return None  # it changes where its output goes
    words = [_text(one) for one in arguments] if is_exec else [name, *map(_text, arguments)]
    while len(words) > 1 and (_base(words[0]) in _STARTERS or _runs_in_environment(words)):
        words = _after_starter(words)
    if not words or not words[0] or (_base(words[0]) in _QUICK and not is_exec and not _follows(words)):
        return None
    how = How.EXEC if is_exec else How.BACKGROUND if is_behind else How.FOREGROUND
    base = _base(words[0])
    sleeps = re.fullmatch(r"(\d+)s?", words[1]) if base == "sleep" and len(words) == 2 else None
    return Program(
        text=" ".join(_text(node).split()),
        line=_line(node),
        how=how,
        is_step=base in _STEPS,
        sleeps_s=float(sleeps[1]) if sleeps else None,
        is_unclear=words[0].startswith(("$", '"$')) or base in _SHELLS,
    )


def _runs_in_environment(words: list[str]) -> bool:
    return _base(words[0]) in {"conda", "mamba", "micromamba"} and words[1] == "run"


def _follows(words: list[str]) -> bool:
    """Check whether it is a `tail -f`, which does not end."""
    return _base(words[0]) == "tail" and any(re.match(r"-\w*[fF]|--follow", word) for word in words[1:])


def _after_starter(words: list[str]) -> list[str]:
    """Return the words from the program that another one starts on: `timeout -k 5 3600 python3 x.py`."""
    is_environment = _runs_in_environment(words)
    rest = words[2:] if is_environment else words[1:]
    place = 0
    while place < len(rest):
        word = rest[place]
        if is_environment and word in {"-n", "--name", "-p", "--prefix", "--cwd"}:
            place += 2
        elif word.startswith("-") or "=" in word or re.fullmatch(r"[\d.]+[smhd]?", word):
            place += 1
        else:
            return rest[place:]
    return []


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _traps(arguments: list[Node], node: Node, functions: Mapping[str, Node], *, knows_sig: bool) -> list[Trap]:
    """Traps that a command sets, a signal each; `-` takes an earlier one back."""
    words = [_unquoted(one) for one in arguments if _text(one) != "--"]
    if len(words) < 2 or (words[0].startswith("-") and words[0] != "-"):
        return []
    handler = None if words[0] == "-" else _handler(words[0], _line(node), functions)
    return [
        Trap(signal=signal_name(word) if knows_sig or not word.startswith("SIG") else None, handler=handler)
        for word in words[1:]
        if signal_name(word) is not None or word.startswith("$")
    ]


def _handler(text: str, line: int, functions: Mapping[str, Node]) -> Handler:
    requeues = submits = cancels = False
    exits: set[int | None] = set()
    for command, _ in _commands(_parsed(text), functions):
        name, arguments = _words(command)
        words = [_unquoted(one) for one in arguments]
        requeues |= _base(name) == "scontrol" and words[:1] in (["requeue"], ["requeuehold"])
        submits |= _base(name) == "sbatch"
        cancels |= _base(name) == "scancel" and any("SLURM_" in word for word in words)
        if name == "exit":
            exits.add(int(words[0]) % 256 if words and re.fullmatch(r"[0-9]{1,18}", words[0]) else None)
    return Handler(
        text=text,
        line=line,
        ignores=text == "",
        requeues=requeues,
        submits=submits,
        cancels=cancels,
        exits=frozenset(exits),
    )


def _line(node: Node) -> int:
    return node.start_point[0] + 1


def _unquoted(node: Node) -> str:
    text = _text(node)
    return text[1:-1] if node.type in {"raw_string", "string"} and len(text) > 1 else text


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
