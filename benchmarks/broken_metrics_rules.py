"""The rules of the metrics that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_TAIL = "db/tesched_db/tail.py"
_ENDPOINT, _FAMILIES = "daemon/tesched_daemon/metrics/endpoint.py", "daemon/tesched_daemon/metrics/families.py"
_EXPORTER = "daemon/tesched_daemon/metrics/exporter.py"

METRICS_MUTATIONS = (
    Mutation("metrics: a run counts once", _TAIL, ", not_(earlier))", ")"),
    Mutation("metrics: and from the process's start", _TAIL, "row.start_time >= self.began_at", "row.start_time > 0"),
    Mutation("metrics: nor jobs that ended before", _TAIL, ", JobRow.end_time >= self.began_at)", ")"),
    Mutation(
        "metrics: orders under way count from where they are",
        _TAIL,
        "_known(order) for order in _orders(connection, rows)}",
        "_known(order) for order in ()}",
    ),
    Mutation("metrics: a victim's departure counts once", _TAIL, "is not victim.departure", "is not None"),
    Mutation("metrics: a futile order counts once", _TAIL, "if now.futile and not known.futile", "if now.futile"),
    Mutation("metrics: until all its steps are read", _TAIL, "if len(steps) < MOST_ROWS:", "if True:"),
    Mutation(
        "metrics: turns are counted apart",
        _TAIL,
        "return Purpose.TE if order.order_id in trials else Purpose.ROUND",
        "return Purpose.TE",
    ),
    Mutation(
        "metrics: an endpoint that has ended is said",
        _EXPORTER,
        "return self._endpoint is not None and not self._endpoint.alive",
        "return False",
    ),
    Mutation("metrics: a host may change on its port", _EXPORTER, "error.errno != errno.EADDRINUSE or", "True or"),
    Mutation("metrics: nothing comes of a read that was ended", _EXPORTER, "if ends.is_set():", "if False:"),
    Mutation(
        "metrics: deleted rows' keys come again",
        _TAIL,
        "last = min(self._last.get(table, 0), connection.scalar(select(func.max(column))) or 0)",
        "last = self._last.get(table, 0)",
    ),
    Mutation("metrics: the oldest client makes way", _ENDPOINT, "oldest.cancel()", "await asyncio.wait([oldest])"),
    Mutation("metrics: partitions are bounded", _FAMILIES, "len(self._partitions) >= MOST_PARTITIONS", "False"),
    Mutation(
        "metrics: a standby has none of the store",
        _FAMILIES,
        "self._store if leads else CollectorRegistry()",
        "self._store",
    ),
    Mutation(
        "metrics: the endpoint of before stays",
        _EXPORTER,
        "            except (OSError, RuntimeError, ValueError) as error:\n",
        "            except (OSError, RuntimeError, ValueError) as error:\n                self.close()\n",
    ),
)
