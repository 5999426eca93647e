"""Prometheus as a process of this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.failures.sources import shown_log
from tests.ports import held_port
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until
from tools.prepare.prometheus import program


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def query(self, text: str) -> list[Any]:
        """The samples that an expression has now. Raises AssertionError if it has a fault."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": text}, timeout=60)
        body = answer.json()
        assert body["status"] == "success", f"{text}: {body}"
        result: list[Any] = body["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Its rules, with what became of their last evaluation."""
        answer = requests.get(f"{self.url}/api/v1/rules", timeout=60).json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    def is_ready(self) -> bool:
        """Whether it takes queries."""
        return answers_well(f"{self.url}/-/ready")


@contextmanager
def running(folder: Path, targets: Mapping[str, str], rules: Path) -> Iterator[Prometheus]:
    """Run one that scrapes `targets` (name of a pod, host and port).

    A scrape has as much time as there is between two.
    """
    config = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [
            {
                "job_name": "di-orchestrator",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [target], "labels": {"pod": pod, "namespace": "di-system"}}
                    for pod, target in targets.items()
                ],
            }
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    with held_port() as port, (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
        found = Prometheus(url=f"http://127.0.0.1:{port}")
        try:
            with shown_log(Path(log.name)):
                wait_until(found.is_ready, START_SECONDS, what=f"Prometheus, see {log.name}")
                yield found
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)
