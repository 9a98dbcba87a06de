"""Records of sacct's with a separator that was drawn for the call, such as `<4f2a91c07b3e>`.

A job's name is whatever its user typed: separators and line feeds too. What no user can know, no user can type: so what
is between two separators is one field, whatever is in it. The first and the last field are to be Slurm's own, which
have no line feed: so a line without a separator begins no record, and one ends at the line feed behind its last field.
"""

from __future__ import annotations

from collections.abc import Iterator

#: characters of the longest record
LONGEST_RECORD = 1 << 24


class LongRecordError(ValueError):
    """A record has no end within so many characters as a record may have."""

    def __init__(self, line: int) -> None:
        """Take the number of its first line."""
        super().__init__(f"a record has more than {LONGEST_RECORD} characters")
        self.line = line


def drawn_records(lines: Iterator[tuple[int, str]], fields: int, separator: str) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, record), once its last line is read; whether it has all `fields` is not checked.

    `lines` are numbered, and without their line feeds. Raises LongRecordError.
    """
    for number, line in lines:
        if not line:
            continue
        parts, length = [line], len(line)
        separators = line.count(separator)
        while 0 < separators < fields - 1:
            _, more = next(lines, (0, None))
            if more is None:
                break
            parts.append(more)
            separators, length = separators + more.count(separator), length + len(more)
            if length > LONGEST_RECORD:
                raise LongRecordError(number)
        yield number, "\n".join(parts)
