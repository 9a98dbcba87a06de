"""The daemon's log: to stderr, a message on a line of its own.

Messages quote what users chose (names, comments, what Slurm says of them): shown by `visible`, none begins a line that
could be the daemon's, and none holds a control character.
"""

from __future__ import annotations

import copy
import logging
import os
import sys

from tesched_core.model.visible import visible, visible_lines

#: Before each line of a traceback, so that no line of an exception's text passes for a message.
_CONTINUED = "\n    "


class LineFormatter(logging.Formatter):
    """Writes a record as one line; a traceback follows it, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        shown = copy.copy(record)
        shown.msg, shown.args = visible(record.getMessage()), ()
        return visible_lines(super().format(shown)).replace("\n", _CONTINUED)


def set_up() -> None:
    """Log to stderr, from INFO on; of the libraries, warnings."""
    # journald adds time and priority by itself.
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for chatty in ("apscheduler", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
