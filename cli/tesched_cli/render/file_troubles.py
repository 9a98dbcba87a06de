"""What is wrong with the files that Slurm's side reads, by file."""

from __future__ import annotations

from collections.abc import Iterator

#: how the daemon begins what it says of the submission hook's file, behind what it says of the marks
_ADMISSION = "the admission file "


def file_troubles(said: str) -> Iterator[tuple[str, str]]:
    """Yield a label and what is wrong, for the marks and for the submission hook's file; nothing for an empty text."""
    marks, found, hook = said.partition(_ADMISSION)
    if marks := marks.removesuffix("; "):
        yield "marks", marks
    if found:
        yield "hook", found + hook
