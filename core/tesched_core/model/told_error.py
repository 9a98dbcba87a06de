"""Error that a user is shown in one line, without a traceback."""

from __future__ import annotations


class ToldError(Exception):
    """What cannot be done; the text says why, and what to do."""
