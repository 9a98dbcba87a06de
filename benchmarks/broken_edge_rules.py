"""Rules of what comes from outside: files that others write, numbers of any size."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FOLLOW, _TENSORBOARD = "report/tesched_report/follow.py", "report/tesched_report/tensorboard.py"

EDGE_MUTATIONS = (
    Mutation("follow: from what was half written", _FOLLOW, "self._offset = error.whole", "pass"),
    Mutation("follow: a file is known by its head", _FOLLOW, " or not head.startswith(self._head)", ""),
    Mutation("event file: no more is kept than a record", _TENSORBOARD, 'self._rest = b""\n            raise', "raise"),
)
