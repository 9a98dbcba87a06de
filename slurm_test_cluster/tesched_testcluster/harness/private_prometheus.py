"""A Prometheus of one's own: it scrapes one target, knows one file of rules, and ends with the block that made it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tesched_testcluster.patience import HANG_S, Patience

_CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: tesched
    static_configs: [{{targets: ["{target}"]}}]
rule_files: ["{rules}"]
"""


class NoPrometheusError(Exception):
    """Prometheus is not installed."""


def free_port() -> int:
    """Return a port of the loopback that is free now."""
    with socket.socket() as channel:
        channel.bind(("127.0.0.1", 0))
        return int(channel.getsockname()[1])


def promtool(*argv: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool with this text on its standard input."""
    return subprocess.run(
        [_installed("promtool"), *argv], input=text, capture_output=True, text=True, timeout=HANG_S, check=False
    )


def _installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise NoPrometheusError(f"{program} is not installed: `make install` does that")
    return found


@dataclass(frozen=True, slots=True)
class PrivatePrometheus:
    """A running Prometheus."""

    address: str

    def get(self, path: str, **parameters: str) -> Any:
        """Return what its API answers. Raises AssertionError for an error."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=HANG_S) as answer:  # noqa: S310 - our own
            content = json.load(answer)
        assert content["status"] == "success", content
        return content["data"]

    def values(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Return the samples that a query has now, each with its labels."""
        data = self.get("query", query=query)
        assert data["resultType"] == "vector", data
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]


@contextmanager
def private_prometheus(folder: Path, target: str, rules: Path) -> Iterator[PrivatePrometheus]:
    """Give one that scrapes the target each second; its data lie in the folder. Raises NoPrometheusError."""
    config, log = folder / "prometheus.yml", folder / "prometheus.log"
    config.write_text(_CONFIG.format(target=target, rules=rules))
    address = f"127.0.0.1:{free_port()}"
    argv = [
        *(_installed("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}"),
        *(f"--web.listen-address={address}", "--storage.tsdb.retention.time=1h"),
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        patience = Patience()
        while not _is_ready(address):
            assert process.poll() is None, log.read_text()
            assert not patience.is_over(), log.read_text()
            time.sleep(0.05)
        yield PrivatePrometheus(f"http://{address}")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=HANG_S):
            return True
    except OSError:
        return False
