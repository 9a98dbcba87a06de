"""Rules of the service and of what an admin hears, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SERVICE, _WIRING = "daemon/tesched_daemon/service.py", "daemon/tesched_daemon/wiring.py"

SERVICE_MUTATIONS = (
    Mutation("watchdog: a wait is no hang", _SERVICE, '        notify(WATCHDOG="1")\n\n    @', "\n    @"),
    Mutation(
        "watchdog: a turn that hangs is one", _SERVICE, "            if self._turning:\n                return\n", ""
    ),
    Mutation(
        "watchdog: one that does not begin is one",
        _SERVICE,
        "                self._plan()\n                return\n        notify",
        "                self._plan()\n        notify",
    ),
    Mutation(
        "stop: no second signal ends it",
        _WIRING,
        "        signals.enter_context(service.signals())\n        service.run()\n",
        "        with service.signals():\n            service.run()\n",
    ),
)
