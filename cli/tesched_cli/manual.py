"""`python -m tesched_cli.manual docs/man`: writes the manual pages, for developers.

tesched(1) is made from the commands themselves, tesched.toml(5) from the example configuration, so neither can say
anything else than `--help` and `tesched config example` do. The pages are kept in docs/man, and a test compares them.
Source of the form: man(7) and groff_char(7).
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click
from tesched_daemon.config_files import DEFAULT_PATH, DROP_INS
from tesched_daemon.config_lookup import NAME

from tesched_cli.config import example_text
from tesched_cli.example_keys import ExampleComment, Heading, Keys, parts, uncommented
from tesched_cli.main import main

#: What roff would read as its own, or print as characters that cannot be copied into a shell.
_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", '"': "\\(dq", "^": "\\(ha", "~": "\\(ti"}
_WIDTH = 78
_SUMMARY = {"tesched.1": "a companion to Slurm", "tesched.toml.5": "the configuration of tesched"}
_CONF_D = DEFAULT_PATH.parent / DROP_INS

_EXIT_STATUS = {
    "0": "It is done. Nothing to show is no error.",
    "1": "What was requested is not there, or could not be done. Of `tesched status`: the daemon has trouble.",
    "2": "The command line, the configuration, the state store or a given file cannot be used.",
    "3": "Of `tesched status`: no daemon runs.",
}
_ENVIRONMENT = {
    "SLURM_CONF": "Slurm's own: where slurm.conf is, unless `slurm.conf` in the configuration says it.",
    "SLURM_CONF_SERVER": "Slurm's own: host and port of the slurmctld that gives slurm.conf to a host without one.",
    "COLUMNS": "How wide the output may be, also in a pipe; what is no positive number counts for nothing.",
}
_FILES = {
    f"./{NAME}, ~/.config/tesched/{NAME}, {DEFAULT_PATH}": "The configuration, where neither `--config` nor "
    "TESCHED_CONFIG names it: the first of these that exists (XDG_CONFIG_HOME stands for ~/.config). The first two are "
    "used only if they belong to root or to the user who runs the command, and no other user may write to them; so is "
    "`conf.d` beside them.",
    f"{_CONF_D}/*.toml": "Read after it, from `conf.d` beside it, in the order of their names. Tables are merged key "
    "by key; of two values the later one stays; a list takes the place of a list.",
}
_STORE = {"/var/lib/tesched/tesched.sqlite": "The state store, unless `store.url` names another one."}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def write(folder: Path) -> None:
    """Write the manual pages into FOLDER."""
    for name, text in pages(main, example_text()).items():
        (folder / name).write_text(text, encoding="ascii")


def pages(command: click.Group, example: str) -> dict[str, str]:
    """Return the manual pages by file name, for these commands and this example configuration."""
    made = {"tesched.1": _commands_page(command), "tesched.toml.5": _configuration_page(example)}
    return {name: "\n".join([*_head(name), *lines]) + "\n" for name, lines in made.items()}


def _head(name: str) -> Iterator[str]:
    title, _, section = name.rpartition(".")
    volume = {"1": "User Commands", "5": "File Formats"}[section]
    yield '.\\" Made by: python -m tesched_cli.manual docs/man'
    # No date: the same source makes the same page on any day.
    yield f'.TH {title.upper()} {section} "" "tesched {version("tesched")}" "{volume}"'
    # Words with hyphens in them, and wide gaps, are not what one types.
    yield ".nh"
    yield ".ad l"
    yield ".SH NAME"
    yield f"{title} \\- {roff(_SUMMARY[name])}"


def _commands_page(command: click.Group) -> Iterator[str]:
    top = _context(command, "tesched", None)
    yield ".SH SYNOPSIS"
    yield f"\\fBtesched\\fR {roff(' '.join(command.collect_usage_pieces(top)))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help or "")
    yield ".SH OPTIONS"
    yield from _options(top)
    yield ".SH COMMANDS"
    contexts = list(_below(top))
    for context in contexts:
        usage = " ".join(context.command.collect_usage_pieces(context))
        yield f'.SS "{roff(f"{context.command_path} {usage}")}"'
        yield from _paragraphs(context.command.help or "")
        yield from _options(context)
    yield ".SH EXIT STATUS"
    yield from _listed(_EXIT_STATUS)
    yield ".SH ENVIRONMENT"
    yield from _listed(_variables(contexts) | _ENVIRONMENT)
    yield ".SH FILES"
    yield from _listed(_FILES | _STORE)
    yield ".SH SEE ALSO"
    yield _references("tesched.toml(5)", "squeue(1)", "scontrol(1)", "systemctl(1)")


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return command.context_class(command, info_name=name, parent=parent, **command.context_settings)


def _below(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of all commands below one, in `--help`'s order. A group itself has nothing to run."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None and not inner.hidden:
            yield from _below(_context(inner, name, context))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        # `--help` is said once, at the top.
        own = context.parent is None or "--help" not in parameter.opts
        record = parameter.get_help_record(context) if own else None
        # An argument is explained by the command's text.
        if record is None or isinstance(parameter, click.Argument):
            continue
        yield ".TP"
        yield re.sub(r"((?:\\-)+\w(?:\w|\\-)*)", r"\\fB\1\\fR", roff(record[0]))
        yield from _wrapped(roff(record[1]))


def _variables(contexts: Iterable[click.Context]) -> dict[str, str]:
    """Return the environment variables that give options a value, with those options."""
    users: dict[str, dict[str, None]] = {}
    for context in contexts:
        for parameter in context.command.get_params(context):
            if isinstance(parameter.envvar, str):
                # An option means the same in each command, an argument only in its own.
                argument = isinstance(parameter, click.Argument)
                of = f"{parameter.human_readable_name} of `{context.command_path}`" if argument else parameter.opts[0]
                users.setdefault(parameter.envvar, {})[of] = None
    return {name: f"Stands in for {' and '.join(sorted(of))}, where not given." for name, of in users.items()}


def _configuration_page(example: str) -> Iterator[str]:
    intro, _, keys = example.partition("\n\n")
    yield ".SH SYNOPSIS"
    yield f".B {roff(str(DEFAULT_PATH))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs("A file in TOML. An unknown key is an error.")
    yield ".PP"
    yield from _paragraphs(uncommented(intro.splitlines()))
    yield ".SH KEYS"
    yield '.SS "Above all tables"'
    yield from _keys(keys)
    yield ".SH FILES"
    yield from _listed(_FILES)
    yield ".SH SEE ALSO"
    yield _references("tesched(1)", "slurm.conf(5)")


def _keys(text: str) -> Iterator[str]:
    """Yield the keys, each with its default and the comment above it; keys that follow each other share theirs."""
    for part in parts(text):
        match part:
            case Keys():
                yield from _entry(part)
            case ExampleComment():
                yield from _remark(part.comment)
            case Heading():
                yield f'.SS "{roff(part.line)}"'


def _entry(keys: Keys) -> Iterator[str]:
    for index, line in enumerate(keys.lines):
        key, _, default = line.partition(" = ")
        yield ".TQ" if index else ".TP"
        yield f"\\fB{roff(key)}\\fR = {roff(default)}"
    yield from _wrapped(roff(uncommented(keys.comment)))


def _remark(comment: Sequence[str]) -> Iterator[str]:
    """Yield a comment that stands alone: text and, from the first table on, an example of what may stand there."""
    lines = [line[1:].removeprefix(" ") for line in comment]
    start = next((index for index, line in enumerate(lines) if line.startswith("[")), len(lines))
    if start < len(lines):
        yield f'.SS "{roff(lines[start])}"'
    yield from _paragraphs("\n".join(lines[:start]))
    if start < len(lines):
        yield ".PP"
        yield ".EX"
        yield from (_guarded(roff(line)) for line in lines[start:])
        yield ".EE"


def _listed(items: dict[str, str]) -> Iterator[str]:
    for name, text in items.items():
        yield ".TP"
        yield f"\\fB{roff(name)}\\fR"
        yield from _wrapped(roff(text))


def _references(*names: str) -> str:
    return ", ".join(f"\\fB{name[:-3]}\\fR({name[-2]})" for name in names)


def _paragraphs(text: str) -> Iterator[str]:
    for index, paragraph in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(text).strip())):
        if index:
            yield ".PP"
        yield from _wrapped(roff(" ".join(paragraph.split())))


def _wrapped(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield _guarded(line)


def _guarded(line: str) -> str:
    """Return a line of text that roff does not take for a request."""
    return f"\\&{line}" if line.startswith(".") else line


def roff(text: str) -> str:
    """Return a text as roff has it, in ASCII; what stands between backquotes becomes bold."""
    escaped = "".join(_ESCAPES.get(char, char if char.isascii() else f"\\[u{ord(char):04X}]") for char in text)
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fP", escaped).replace("`", "\\(ga")


if __name__ == "__main__":
    write()
