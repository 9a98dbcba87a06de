"""Error that a user is told in one line, without a traceback."""

from __future__ import annotations


class ToldError(Exception):
    """What cannot be done; the text says why, and what to do."""
