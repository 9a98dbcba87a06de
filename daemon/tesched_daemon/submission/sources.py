"""Words of a submission: the script, and sbatch's options from it, from the environment and from the command line."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tesched_core.model.told_error import ToldError
from tesched_slurm.sbatch_environment import options_of_environment
from tesched_slurm.sbatch_options import (
    SbatchOption,
    UnknownOptionError,
    component_lines,
    options_in,
    pbs_lines,
    read_options,
)
from tesched_slurm.shell_script import MOST_BYTES

from tesched_daemon.own_file import kind_of

#: what stands for the name of a script that sbatch makes itself, and of one that is piped in
WRAP, STDIN = "--wrap", "standard input"
#: bytes of the longest script that slurmctld takes (max_script_size of slurm.conf, as it is by itself)
_MOST_TAKEN = 4 * 1024 * 1024
#: how a program begins
_ELF = b"\x7fELF"
_BETWEEN = ":"


class SubmissionError(ToldError):
    """The job cannot be judged. The text says why, and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What would be submitted."""

    text: str
    #: its name as it was given, `WRAP` or `STDIN`
    where: str
    #: in the order in which they count: of one name the last one does. Of a heterogeneous job its first component's
    options: tuple[SbatchOption, ...]
    #: those of sbatch's own command line, all components', without the script's name and arguments
    given: tuple[str, ...]
    #: it has several components
    is_heterogeneous: bool = False

    @property
    def by_name(self) -> Mapping[str, SbatchOption]:
        """Return the option that counts of each name."""
        return {option.name: option for option in self.options}

    @property
    def pbs_note(self) -> str:
        """Note on `#PBS` lines that sbatch reads; empty without one."""
        line = None if self.where == WRAP or "ignore-pbs" in self.by_name else next(pbs_lines(self.text), None)
        if line is None:
            return ""
        return (
            f"#PBS in line {line}: sbatch takes options from such lines, which are not read here (--ignore-pbs: none)"
        )

    @property
    def unknown_note(self) -> str:
        """Note on options that sbatch does not have by itself; empty without one."""
        names = dict.fromkeys(f"--{option.name} {option.place}" for option in self.options if not option.is_known)
        return f"sbatch refuses {', '.join(names)}, unless a plugin of the site's has it" if names else ""

    @property
    def is_file(self) -> bool:
        """Check whether the script is a file of its own."""
        return self.where not in {WRAP, STDIN}


def read_words(command: str, words: Sequence[str], environment: Mapping[str, str] | None = None) -> Words:
    """Read what sbatch would be given by these words, the first of which that is no option names its script.

    `command` is ours, for what it says of itself; `check` parses the script, and takes none above `MOST_BYTES`. The
    script `-` is standard input. Raises SubmissionError.
    """
    variables = options_of_environment(os.environ if environment is None else environment)
    try:
        given, rest = read_options(words)
        several, all_given = rest[:1] == (_BETWEEN,), [*given]
        while rest[:1] == (_BETWEEN,):
            options, rest = read_options(rest[1:])
            all_given += options
    except UnknownOptionError as error:
        raise SubmissionError(str(error)) from error
    sbatch_words = tuple(words[: len(words) - len(rest)])
    wrapped = next((option.value for option in all_given if option.name == "wrap"), None)
    if wrapped is not None:
        if rest:
            raise SubmissionError(f"--wrap and a script, {rest[0]}: name one of them, as for sbatch")
        text = f"#!/bin/sh\n{wrapped}\n"
        return Words(text=text, where=WRAP, options=(*variables, *given), given=sbatch_words, is_heterogeneous=several)
    if not rest:
        usage = f"tesched {command} [SBATCH_OPTION]... SCRIPT, or - for standard input"
        unknown = [f"--{option.name}" for option in all_given if not option.is_known]
        why = f"unrecognized option {unknown[0]}, unless a plugin of the site's has it; " if unknown else ""
        raise SubmissionError(f"{why}no script is named: {usage}")
    text = _script(rest[0], MOST_BYTES if command == "check" else _MOST_TAKEN)
    try:
        written = options_in(text)
    except UnknownOptionError as error:
        raise SubmissionError(f"{rest[0]}: {error}") from error
    return Words(
        text=text,
        where=STDIN if rest[0] == "-" else rest[0],
        options=(*written, *variables, *given),
        given=sbatch_words,
        is_heterogeneous=several or next(component_lines(text), None) is not None,
    )


def _found(name: str) -> Path:
    """Path of a script: as for sbatch a file of that name, else one in a folder of PATH."""
    path = Path(name)
    on_path = None if os.sep in name or path.is_file() else shutil.which(name, os.R_OK)
    return path if on_path is None else Path(on_path)


def _script(name: str, most: int) -> str:
    """Return a script's text, of so many bytes at most. Raises SubmissionError for what sbatch would refuse."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(most + 1)
        elif not stat.S_ISREG(mode := (path := _found(name)).stat().st_mode):
            empty = "the batch script is empty" if path.samefile(os.devnull) else f"it is {kind_of(mode)}, not a file"
            raise SubmissionError(f"{name}: {empty}; name a batch script")
        else:
            with path.open("rb") as stream:
                raw = stream.read(most + 1)
    except (OSError, ValueError) as error:
        raise SubmissionError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    if not raw:
        raise SubmissionError(f"{name}: the batch script is empty; it begins with a line such as #!/bin/bash")
    if raw.startswith(_ELF):
        right = f'--wrap="{name} ..." runs it, or a script that begins with a line such as #!/bin/bash'
        raise SubmissionError(f"{name}: it is a program, and sbatch takes a batch script; {right}")
    if len(raw) > most and raw.startswith(b"#!"):
        raise SubmissionError(f"{name}: it has more than {most} bytes, and so many are read")
    if not raw.startswith(b"#!"):
        raise SubmissionError(f'{name}: line 1: sbatch takes a script that begins with "#!", such as #!/bin/bash')
    if b"\0" in raw:
        raise SubmissionError(f"{name}: it is no text: sbatch takes a script")
    if b"\r\n" in raw:
        raise SubmissionError(f"{name}: sbatch takes no lines that end as DOS has them (CR LF): dos2unix mends that")
    return raw.decode(errors="replace")
