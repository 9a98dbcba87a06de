"""Metrics of a daemon beside a real Slurm, by a real Prometheus, with the dashboard and the rules that sites copy."""

from __future__ import annotations

import json
import math
import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.cluster import WaitTimeoutError
from tesched_testcluster.harness.daemon_process import Daemon, run_tesched, running_daemon, write_config
from tesched_testcluster.harness.private_prometheus import (
    PrivatePrometheus,
    free_port,
    private_prometheus,
    promtool,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

MONITORING = Path(__file__).parents[2] / "docs" / "examples" / "monitoring"
RULES = MONITORING / "tesched.rules.yml"
#: works until its second run
VICTIM = "#!/bin/bash\n[[ -n $SLURM_RESTART_COUNT ]] || sleep 3600\n"
#: Panels that one preemption may leave empty: nothing is bounded here, and the TE job need not have been refused.
EMPTY = {"Bound used by the BE job that is nearest to it", "Why TE jobs wait: refusals, an hour"}
#: longer than the test takes, so that all of it is in the window
WINDOW = "1h"


def panels() -> Iterator[tuple[str, str]]:
    """Yield each query of the dashboard with its panel's title."""
    for panel in json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", WINDOW)


def alerts() -> list[str]:
    """Return the expressions of the rules."""
    return re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.MULTILINE)


def scraped(port: int) -> str:
    """Return what a scrape gets."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
        return str(answer.read().decode())


def preempt(cluster: LocalCluster, daemon: Daemon) -> None:
    """Have a TE job preempt a BE job; wait until both are through with it."""
    script = cluster.shared / "victim.sh"
    script.write_text(VICTIM)
    options = ("-N1", "--exclusive", "--mem=100", f"--chdir={cluster.shared}", "--output=/dev/null")
    be = cluster.sbatch(*options, "--job-name=be-1", script=script)
    cluster.wait_state(be, "RUNNING")
    # A run of less than a second has no slowdown.
    cluster.wait_for(lambda: cluster.job(be)["RunTime"] != "00:00:00", "a second of its run")
    node = cluster.job(be)["NodeList"]
    te = cluster.sbatch(*options, "--job-name=te-1", f"-w{node}", wrap="sleep 0.5")
    cluster.wait_state(te, "COMPLETED")
    cluster.wait_state(be, "COMPLETED")
    cluster.wait_for(lambda: daemon.json("status")["tally"]["orders"] == 1, "the order to end")


@pytest.mark.gate
def test_prometheus_scrapes_a_daemon_and_each_panel_and_rule_of_the_examples_has_an_answer(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    # One of its own: `tesched status` counts the TE jobs that earlier tests have left in slurmctld, the metrics do not.
    cluster = make_cluster(None)
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stderr
    port = free_port()
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "metrics.toml").write_text(f'[metrics]\nlisten = "127.0.0.1:{port}"\n')
    with (
        running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon,
        private_prometheus(tmp_path, f"127.0.0.1:{port}", RULES) as prometheus,
    ):
        # The counters' first 0 is there, from which they rise.
        first = 'tesched_job_wait_seconds_count{class="te"} == 0'
        cluster.wait_for(lambda: prometheus.values(first), "a scrape of the leader")
        preempt(cluster, daemon)
        # A poll, a read of the store and a scrape lie between what happens and what a query says.
        try:
            cluster.wait_for(
                lambda: not differing(prometheus, daemon.json("status")), "the metrics to agree with `tesched status`"
            )
        except WaitTimeoutError as error:
            error.add_note(f"metrics, and what status says: {differing(prometheus, daemon.json('status'))}")
            raise
        tally = daemon.json("status")["tally"]
        assert (tally["victims_left"], tally["started_here"], tally["futile"], tally["lost"]) == (1, 1, 0, 0)

        exposition = scraped(port)
        checked = promtool("check", "metrics", text=exposition)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        assert "te-1" not in exposition
        assert "be-1" not in exposition

        for title, query in panels():
            # A partition without a TE job has a quantile of nothing.
            values = [value for _, value in prometheus.values(query) if not math.isnan(value)]
            assert values or title in EMPTY, (title, query)
        for query in alerts():
            assert prometheus.values(query) == [], query
        groups = prometheus.get("rules")["groups"]
        assert [rule["health"] for group in groups for rule in group["rules"]] == ["ok"] * len(alerts())


@pytest.mark.gate
def test_an_address_that_is_taken_ends_the_start_and_is_shown_by_status_after_a_reload(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    drop_in = tmp_path / "conf.d" / "metrics.toml"
    drop_in.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        drop_in.write_text(f'[metrics]\nlisten = "{taken}"\n')
        config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
        ended = run_tesched("daemon", TESCHED_CONFIG=str(config))
        why = f"metrics.listen: {taken} cannot be listened on: Address already in use"
        assert ended.returncode == 2
        assert f"{drop_in}: {why}" in ended.stderr

        drop_in.unlink()
        with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
            drop_in.write_text(f'[metrics]\nlisten = "{taken}"\n')
            daemon.process.send_signal(signal.SIGHUP)
            cluster.wait_for(lambda: daemon.json("status")["daemon"]["metrics_trouble"] == why, "status to say so")
            assert f"METRICS  {why}" in daemon.ask("status").stdout
            other.close()
            daemon.process.send_signal(signal.SIGHUP)
            cluster.wait_for(lambda: daemon.json("status")["daemon"]["metrics_trouble"] == "", "the endpoint")
            assert "tesched_leader 1.0" in scraped(int(taken.rpartition(":")[2]))


def total(prometheus: PrivatePrometheus, metric: str) -> float:
    """Return the sum of all series."""
    return sum(value for _, value in prometheus.values(metric))


def differing(prometheus: PrivatePrometheus, status: Any) -> dict[str, tuple[float, float]]:
    """Return where the metrics and `tesched status` do not say the same of the one preemption: both values."""
    tally, queues = status["tally"], {queue["job_class"]: queue for queue in status["queues"]}
    expected = {
        'tesched_victims_total{departure="requeued"}': tally["victims_left"],
        "tesched_last_day_victims": tally["victims_left"],
        "tesched_last_day_orders": tally["orders"],
        'tesched_orders_total{ending="started_here",purpose="te"}': tally["started_here"],
        "tesched_futile_orders_total": tally["futile"],
        "tesched_lost_node_seconds_total": tally["lost_node_s"],
        "tesched_last_day_lost_node_seconds": tally["lost_node_s"],
        'tesched_order_phase_seconds_count{phase="whole"}': tally["started_here"],
        'tesched_job_wait_seconds_count{class="te"}': 1,
        # its first run, and the one after its requeue
        'tesched_job_wait_seconds_count{class="be"}': 2,
        'tesched_job_slowdown_count{class="te"}': queues["te"]["slowdown"]["count"],
        'tesched_job_slowdown_count{class="be"}': 1,
        'tesched_last_day_slowdown{class="be",percentile="50"}': queues["be"]["slowdown"]["p50"] or 0.0,
        "tesched_leader": 1,
        'tesched_mode{mode="enforce"}': 1,
    }
    found = {query: (total(prometheus, query), float(value)) for query, value in expected.items()}
    return {query: pair for query, pair in found.items() if abs(pair[0] - pair[1]) > 1e-6}
