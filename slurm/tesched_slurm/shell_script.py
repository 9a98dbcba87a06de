"""What a batch script does about signals, as far as its text tells: its traps, and what it runs in which way.

Principle
    The text is parsed (tree-sitter's grammar of bash), never run or expanded. Which branch is taken is not known, so
    all are looked at. Of a program's own handlers nothing is known.

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
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache

import tree_sitter_bash
from tesched_core.model.notice import signal_name
from tree_sitter import Language, Node, Parser

#: bytes of the longest script that is read: what the parser needs for one that is made for that grows with their square
MOST_BYTES = 65_536
#: seconds that it may take
_MOST_S = 5.0
#: functions that call each other are looked into so deep
_DEPTH = 5


def _words_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: interpreters whose scripts are read; without a first line sbatch refuses a script
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What a script does on a signal."""

    text: str
    line: int
    #: the signal does nothing (`trap '' USR1`)
    ignores: bool = False
    #: it puts its job back in the queue
    requeues: bool = False
    #: with which status it ends the script; None: it does not, or that is not plain
    exits: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellScript:
    """What is known of a script."""

    #: by the signal's name, such as USR1
    traps: Mapping[str, Handler] = field(default_factory=dict)
    programs: tuple[Program, ...] = ()
    #: it waits for what runs in the background
    waits: bool = False
    #: what interprets it, where that is no shell
    interpreter: str = ""


class ScriptError(ValueError):
    """A script that cannot be read, in words."""


def read_script(text: str) -> ShellScript:
    """Return what a batch script does. Raises ScriptError for one that no parser of ours can read."""
    try:
        return _read(text)
    except RecursionError as error:
        raise ScriptError("its commands stand in each other too deep to be read") from error


def _read(text: str) -> ShellScript:
    interpreter = _interpreter(text)
    if interpreter and interpreter not in _SHELLS:
        first = Program(text=interpreter, line=1, how=How.EXEC, is_step=False)
        return ShellScript(programs=(first,), interpreter=interpreter)
    root = _parsed(text)
    functions = dict(_functions(root))
    traps: dict[str, Handler] = {}
    programs: list[Program] = []
    waits = False
    for node, is_behind in _commands(root, functions):
        name, arguments = _words(node)
        if name == "trap":
            traps |= _trap(arguments, node, functions)
        elif name == "wait":
            waits = True
        else:
            program = _program(node, name, arguments, is_behind=is_behind)
            programs += [program] if program is not None else []
    return ShellScript(
        traps={signal: handler for signal, handler in traps.items() if handler.text != "-"},
        programs=tuple(programs),
        waits=waits,
    )


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


def _commands(
    node: Node, functions: Mapping[str, Node], *, is_behind: bool = False, depth: int = 0
) -> Iterator[tuple[Node, bool]]:
    """Yield each command that a script may run, in its order, and whether it runs in the background.

    Not what a substitution runs: its end is awaited at once. A function's commands stand where it is called.
    """
    if node.type == "command":
        name, _ = _words(node)
        if name in functions and depth < _DEPTH:
            yield from _commands(functions[name], functions, is_behind=is_behind, depth=depth + 1)
        else:
            yield node, is_behind
        return
    if node.type in {"function_definition", "command_substitution", "process_substitution"}:
        return
    for place, child in enumerate(node.children):
        after = node.children[place + 1] if place + 1 < len(node.children) else None
        behind = is_behind or (after is not None and after.type == "&")
        yield from _commands(child, functions, is_behind=behind, depth=depth)


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
    while len(words) > 1 and _base(words[0]) in _STARTERS:
        words = _after_starter(words)
    if not words or (_base(words[0]) in _QUICK and not is_exec) or not words[0]:
        return None
    how = How.EXEC if is_exec else How.BACKGROUND if is_behind else How.FOREGROUND
    text = " ".join(_text(node).split())
    return Program(text=text, line=node.start_point[0] + 1, how=how, is_step=_base(words[0]) in _STEPS)


def _after_starter(words: list[str]) -> list[str]:
    """Return the words from the program that another one starts on: `timeout -k 5 3600 python3 x.py`."""
    for place, word in enumerate(words[1:], 1):
        if not word.startswith("-") and "=" not in word and not re.fullmatch(r"[\d.]+[smhd]?", word):
            return words[place:]
    return []


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _trap(arguments: list[Node], node: Node, functions: Mapping[str, Node]) -> dict[str, Handler]:
    """Return what a trap says, by signal; `-` takes an earlier one back."""
    words = [_unquoted(one) for one in arguments if _text(one) != "--"]
    if len(words) < 2 or (words[0].startswith("-") and words[0] != "-"):
        return {}
    handler = _handler(words[0], node.start_point[0] + 1, functions)
    signals = [signal_name(word) for word in words[1:]]
    return {signal: handler for signal in signals if signal is not None}


def _handler(text: str, line: int, functions: Mapping[str, Node]) -> Handler:
    requeues, exits = False, None
    for command, _ in _commands(_parsed(text), functions):
        name, arguments = _words(command)
        words = [_unquoted(one) for one in arguments]
        if _base(name) == "scontrol" and words[:1] in (["requeue"], ["requeuehold"]):
            requeues = True
        elif name == "exit":
            exits = int(words[0]) % 256 if words and words[0].isdecimal() else None
    return Handler(text=text, line=line, ignores=text == "", requeues=requeues, exits=exits)


def _unquoted(node: Node) -> str:
    text = _text(node)
    return text[1:-1] if node.type in {"raw_string", "string"} and len(text) > 1 else text


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
