"""Prometheus and promtool: those of the machine, or the distribution's package, unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from di_cluster.settings import Settings
from tests.ports import free_port
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until

_SECONDS = 300


def program(name: str) -> Path:
    """The path of `prometheus` or `promtool`; nothing is installed and nothing started.

    Raises RuntimeError if neither is there and the package cannot be fetched.
    """
    if (found := shutil.which(name)) is not None:
        return Path(found)
    folder = Settings.from_environment(os.environ).cache / "prometheus"
    if not (folder / "usr/bin" / name).exists():
        _unpack(folder)
    return folder / "usr/bin" / name


def _unpack(folder: Path) -> None:
    download = folder / "download"
    shutil.rmtree(folder, ignore_errors=True)
    download.mkdir(parents=True)
    fetch = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "prometheus"]
    if _run(fetch, download).returncode:
        _run(["apt-get", "-qq", "update"], download)  # the lists are missing or too old
        done = _run(fetch, download)
        if done.returncode:
            raise RuntimeError(f"apt-get cannot fetch prometheus: {done.stderr}")
    (package,) = download.glob("prometheus_*.deb")
    unpacked = _run(["dpkg-deb", "-x", str(package), str(folder)], download)
    if unpacked.returncode:
        raise RuntimeError(f"the package of prometheus cannot be unpacked: {unpacked.stderr}")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A Prometheus that runs."""

    url: str

    def query(self, text: str) -> list[Any]:
        """The samples that an expression has now. Raises AssertionError if it has a fault."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": text}, timeout=30)
        body = answer.json()
        assert body["status"] == "success", f"{text}: {body}"
        result: list[Any] = body["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Its rules, with what became of their last evaluation."""
        answer = requests.get(f"{self.url}/api/v1/rules", timeout=30).json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    def is_ready(self) -> bool:
        """Whether it takes queries."""
        return answers_well(f"{self.url}/-/ready")


@contextmanager
def running(folder: Path, targets: Mapping[str, str], rules: Path) -> Iterator[Prometheus]:
    """Run one that scrapes `targets` (name of a pod, host and port) each second."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
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
    file, port = folder / "prometheus.yaml", free_port()
    file.write_text(yaml.safe_dump(config))
    with (folder / "prometheus.log").open("wb") as log:
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
        wait_until(found.is_ready, START_SECONDS, what=f"Prometheus, see {log.name}")
        yield found
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
