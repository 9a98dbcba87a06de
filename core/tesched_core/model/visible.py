r"""The one place where text that others wrote is made fit to be shown: on a terminal, a page, in a log.

Definitions
    users' text  job names, comments, users, accounts, partitions, reasons, workloads, and what an error quotes of them.
    escape       the visible form of one character: `\n`, `\x1b`, `\u202e`, `\U000e0041`, as Python and C write it.

Principle
    Users' text is kept as it came and made visible where it is shown. Whatever could move the cursor, begin another
    line, turn the direction of writing or hide itself becomes an escape: control characters (C0, DEL, C1), format
    characters (bidirectional marks and isolates, zero-width characters, tags), line and paragraph separators, blanks
    other than the space, surrogates, private and unassigned characters, and letters that are drawn as nothing. So does
    each combining mark after the fourth: a stack of them runs over the lines above.
    A byte that was no UTF-8 (surrogateescape) is shown as that byte. A backslash stays one, so that a Windows domain
    can be read; `\x1b` that a user typed resembles an escape, and does as little. What is visible stays as it is:
    `visible(visible(text)) == visible(text)`.
    Markup is no concern of this module: what prints takes no text as markup, and templates of pages escape it.

Worked example
    "a\x1b[2Jb\nc\u202ed" is shown as r"a\x1b[2Jb\nc\u202ed", on one line.

Parameters
    none.

Source
    Unicode 15.1, chapter 4.5 (general categories) and Default_Ignorable_Code_Point; UTS #39; CVE-2021-42574.
"""

from __future__ import annotations

import re

#: Printable by category, and drawn as nothing or as a blank: joiners, fillers, variation selectors, empty Braille.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
#: What may have to be changed; all else is ASCII.
_SUSPECT = re.compile(r"[^ -~]")
_BLANKS = re.compile(f"[{_BLANK}]")
#: Combining marks of the blocks that have nothing else: Latin and Greek, and those for symbols. Scripts that need marks
#: to be written have their own, at most four on a letter.
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACK = re.compile(f"({_MARK}{{4}})({_MARK}+)")
#: Where surrogateescape puts the bytes 0x80 to 0xff.
_BYTES = range(0xDC80, 0xDD00)


def visible(text: str) -> str:
    """Return the text on one line, each character that is not plainly visible as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _STACK.sub(_stacked, _SUSPECT.sub(_shown, text))


def visible_lines(text: str) -> str:
    """Return the text with its line feeds kept, all else as `visible` has it: for tracebacks, and for texts of ours."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: str, most: int) -> str:
    """Return the text, made visible, in at most so many characters; what was cut off is two dots."""
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 2]}.."


def _shown(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() and not _BLANKS.match(character):
        return character
    return _escape(character)


def _stacked(found: re.Match[str]) -> str:
    return found[1] + "".join(map(_escape, found[2]))


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if code in _BYTES else character.encode("unicode_escape").decode()
