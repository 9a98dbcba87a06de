"""Parts of the example configuration: its keys, each with the comment that explains it.

`tesched.toml(5)` and the descriptions of `tesched config schema` are made of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Keys that follow each other, and the comment that they share."""

    #: each as it stands there: "cool_down_s = 600.0"
    lines: tuple[str, ...]
    comment: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleComment:
    """A comment that stands alone."""

    comment: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The head of a table: "[guard]"."""

    line: str


def parts(text: str) -> Iterator[Keys | ExampleComment | Heading]:
    """Yield what stands in the example, in its order."""
    comment: list[str] = []
    keys: list[str] = []
    for line in [*text.splitlines(), ""]:
        if " = " in line and not line.startswith(("#", "[")):
            keys.append(line)
            continue
        if keys:
            yield Keys(lines=tuple(keys), comment=tuple(comment))
            keys.clear()
            comment.clear()
        if line.startswith("#"):
            comment.append(line)
            continue
        if comment:
            yield ExampleComment(comment=tuple(comment))
            comment.clear()
        if line:
            yield Heading(line=line)


def uncommented(lines: Iterable[str]) -> str:
    """Return the text of a comment on one line."""
    return " ".join(line[1:].strip() for line in lines)


def explained(text: str) -> Mapping[str, str]:
    """Return the comment on each key of the example, by its dotted name."""
    table = ""
    found: dict[str, str] = {}
    for part in parts(text):
        if isinstance(part, Heading):
            table = f"{part.line.strip('[]')}."
        elif isinstance(part, Keys):
            # Of a sentence that goes on from key to key each has its own piece.
            said = re.sub(r"^\.\.\. |\s*\.\.\.$", "", uncommented(part.comment))
            found |= {f"{table}{line.partition(' = ')[0]}": said for line in part.lines}
    return found
