"""Answers as text with one character a byte: what Slurm prints of all jobs takes no more memory than its bytes.

Python keeps a text with as many bytes a character as its widest one needs. So one emoji in the name of one job would
make four bytes of each in an answer on 100,000 jobs. Here each byte is a character, and a value is decoded when it is
taken out. All that Slurm's own words are searched for is ASCII, of which no byte is part of another character in UTF-8.
"""

from __future__ import annotations


def narrow(said: bytes | bytearray) -> str:
    """Return what was printed, a character for each byte."""
    return said.decode("latin-1")


def as_text(part: str) -> str:
    """Decode a part of a narrow answer as it was printed: users' text may hold any bytes."""
    return part if part.isascii() else part.encode("latin-1").decode("utf-8", "surrogateescape")


def as_narrow(text: str) -> str:
    """Return a text as it stands in a narrow answer."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")
