"""Answers as the bytes that Slurm printed, of which a value is decoded when it is taken out.

Of 100,000 jobs the two answers are 210 MB. As texts they would be there once more while they are decoded, and Python
keeps a text with as many bytes a character as its widest one needs: one emoji in the name of one job makes it four. All
that Slurm's own words are searched for is ASCII, of which no byte is part of another character in UTF-8.
"""

from __future__ import annotations

from typing import TypeAlias

Answer: TypeAlias = bytes | bytearray


def as_text(said: Answer) -> str:
    """Decode what was printed: users' text may hold any bytes, and a carriage return is not a newline."""
    return said.decode("utf-8", "surrogateescape")


def as_printed(text: str) -> bytes:
    """Return the bytes of a text in an answer."""
    return text.encode("utf-8", "surrogateescape")
