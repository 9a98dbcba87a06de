"""Errors of the journal: all that a reader of the store needs of `tesched_core.ports`."""

from __future__ import annotations

from tesched_core.model.told_error import ToldError


class JournalError(ToldError):
    """The journal cannot be read or written now. Nothing may be done that it does not know of."""


class UnwritableError(JournalError):
    """The journal is there, and what it was given cannot be written: a number too large, a text of no encoding."""


class LedByAnotherError(JournalError):
    """Another process leads by now: the journal takes nothing more of this one, however often it tries."""
