"""The metrics' names, labels and bounds; `docs/reference/metrics.md` and the examples name those that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from tesched_daemon.metrics.families import MOST_CALLS, MOST_PARTITIONS, OWN, STORE, Families
from tesched_daemon.settings import Mode
from tesched_db.tail import News, Started

DOCS = Path(__file__).parents[3] / "docs"
#: what a label may be called: no user, no job, no account, no node
LABELS = {
    *("call", "class", "code", "departure", "ending", "mode", "of", "outcome"),
    *("partition", "percentile", "phase", "purpose", "stage", "state", "version", "le"),
}


def row(metric: Metric, labels: tuple[str, ...]) -> str:
    """Return a metric's row in the table of the page."""
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return f"| `{name}` | {metric.type} | {', '.join(labels)} | {metric.documentation} |"


def labels_of(families: Families, metric: Metric) -> tuple[str, ...]:
    """Return the labels that a metric has, without the buckets' own."""
    declared = {**OWN, **STORE}.get(metric.name)
    if declared:
        return declared[0]
    if metric.name == "tesched_calls":
        return ("call",)
    metrics = [one for one in vars(families.counts).values() if getattr(one, "_name", "") == metric.name]
    return tuple(metrics[0]._labelnames)


def test_the_reference_has_each_metric_in_its_order() -> None:
    families = Families()
    families.calls.counts = {"squeue": 1}
    expected = [row(metric, labels_of(families, metric)) for metric in families.catalogue()]
    page = (DOCS / "reference" / "metrics.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("| `tesched_")] == expected


def test_no_label_is_a_users_or_a_jobs() -> None:
    families = Families()
    families.counts.add(News(started=(Started(job_class="te", partition="main", waited_s=1.0),)))
    found = {label for metric in families.catalogue() for sample in metric.samples for label in sample.labels}
    declared = {label for labels, _ in (*OWN.values(), *STORE.values()) for label in labels}
    assert found | declared <= LABELS


def test_the_dashboard_and_the_rules_name_metrics_that_there_are() -> None:
    families = Families()
    there = {f"{metric.name}{end}" for metric in families.catalogue() for end in ("", "_total", "_bucket", "_count")}
    folder = DOCS / "examples" / "monitoring"
    dashboard = json.loads((folder / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += re.findall(r"expr: (.*)", (folder / "tesched.rules.yml").read_text())
    named = {name for query in queries for name in re.findall(r"\btesched_\w+", query)}
    assert named <= there
    assert dashboard["panels"][0]["title"] == "TE waiting time"


def test_the_bounds_alert_is_a_warning_as_tescheds_account_may_exceed_what_the_bound_counts() -> None:
    rules = (DOCS / "examples" / "monitoring" / "tesched.rules.yml").read_text().split("- alert: ")
    (rule,) = (one for one in rules if one.startswith("TeschedBoundReached\n"))
    assert "severity: warning" in rule
    assert re.search(r"^ +for: \d+m$", rule, re.MULTILINE)
    assert "tesched's account, which may exceed what the bound counts" in rule
    assert "at most 1" not in STORE["tesched_bound_used_ratio"][1]


def test_partitions_are_bounded_and_what_a_name_has_in_it_is_escaped() -> None:
    families = Families()
    strange = 'a"b\\c\nd'
    names = [strange, *(f"p{number}" for number in range(2 * MOST_PARTITIONS))]
    families.counts.add(News(started=tuple(Started(job_class="te", partition=one, waited_s=3.0) for one in names)))
    text = families.text(openmetrics=False, leads=True).decode()
    (wait,) = (one for one in text_string_to_metric_families(text) if one.name == "tesched_job_wait_seconds")
    counts = {one.labels["partition"]: one.value for one in wait.samples if one.name.endswith("_count")}
    assert len(counts) == MOST_PARTITIONS + 1
    assert counts[strange] == 1
    assert counts["other"] == MOST_PARTITIONS + 1


def test_calls_are_bounded_too() -> None:
    families = Families()
    families.own_now(leads=True, mode=Mode.SHADOW, version="1", calls={f"call {n}": n for n in range(1000)})
    text = families.text(openmetrics=False, leads=False).decode()
    assert text.count("tesched_calls_total{") == MOST_CALLS


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_standby_has_nothing_of_the_store(openmetrics: bool) -> None:
    families = Families()
    families.own_now(leads=False, mode=Mode.ENFORCE, version="1", calls={})
    text = families.text(openmetrics=openmetrics, leads=False).decode()
    assert 'tesched_mode{mode="enforce"} 1.0' in text
    assert "tesched_victims" not in text
    assert "tesched_victims" in families.text(openmetrics=openmetrics, leads=True).decode()


def test_counters_begin_at_zero_for_every_word() -> None:
    text = Families().text(openmetrics=False, leads=True).decode()
    for series in (
        'tesched_victims_total{departure="lost",purpose="te"} 0.0',
        'tesched_orders_total{ending="expired",purpose="te"} 0.0',
        'tesched_futile_orders_total{purpose="round"} 0.0',
        'tesched_refusals_total{code="bound",of="job"} 0.0',
        'tesched_polls_total{outcome="unreachable"} 0.0',
        'tesched_order_phase_seconds_count{phase="whole"} 0.0',
    ):
        assert series in text
    assert "_created" not in text
