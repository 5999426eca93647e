"""di-servers before a real API server, and schemathesis with their OpenAPI document in hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests
from typing_extensions import override

from di_kube.config import load_config
from di_kube.sync import SyncKubeClient
from tests.integration.di_server import (
    ServerProcess,
    new_coordinated_job,
    new_job,
    new_pod,
    running_server,
)
from tools.benchmarks.processes import peak_memory_mib
from tools.fuzz.jobs import COORDINATED, TASKS
from tools.fuzz.outcome import Outcome, growth

HERE: Final = Path(__file__).resolve().parent
_MODES: Final = ("off", "required")
_ENOUGH: Final = str(1_000_000)
_MORE_SECONDS: Final = 120.0
_COUNTED: Final = re.compile(
    r'^di_server_requests_total\{code="(\d+)",operation="(\w+)"\} (\S+)', re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Outcome):
    """What a run against one server has shown."""

    auth: str
    """DI_SERVER_AUTH."""
    requests: int
    answers: Mapping[str, Mapping[str, int]]
    """By operation and status."""

    @property
    @override
    def inputs(self) -> int:
        return self.requests

    @property
    @override
    def title(self) -> str:
        return f"rest, auth {self.auth}: {self.requests} requests"


def run(
    kubeconfig: Path,
    kubectl: Path,
    namespace: str,
    out: Path,
    *,
    seconds: int,
    on_outcome: Callable[[Asked], None] = lambda _: None,
) -> list[Asked]:
    """Ask one server for anything without tokens, and one with a token, side by side.

    Args:
        kubeconfig: the administrator's access to an API server that has the CRD.
        kubectl: the program.
        namespace: of the jobs that are asked about; they are made here.
        out: gets a report and the log of each.
        seconds: how long each server is asked.
    """
    _make_jobs(kubeconfig, namespace)
    token = _token(kubeconfig, kubectl, namespace)

    def one(auth: str) -> Asked:
        folder = out / f"rest-{auth}"
        folder.mkdir(parents=True, exist_ok=True)
        with running_server(
            folder, kubeconfig, auth=auth, rate=_ENOUGH, burst=_ENOUGH, refusal_burst=_ENOUGH
        ) as server:
            outcome = _ask(server, auth, folder, token=token, namespace=namespace, seconds=seconds)
        on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(len(_MODES)) as pool:
        return list(pool.map(one, _MODES))


def _ask(
    server: ServerProcess, auth: str, folder: Path, *, token: str, namespace: str, seconds: int
) -> Asked:
    report, log = folder / "report.json", folder / "log"
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "--no-color"),
        *("--config-file", str(HERE / "schemathesis.toml")),
        *("run", f"{server.url}/openapi.json", "--max-time", str(seconds)),
        *("--generation-database", "none"),
        *("--report", "json", "--report-json-path", str(report)),
        *(("-H", f"Authorization: Bearer {token}") if auth != "off" else ()),
    ]
    environment = {
        **os.environ,
        "FUZZ_NAMESPACE": namespace,
        "PYTHONPATH": str(HERE.parents[1]),
        "SCHEMATHESIS_HOOKS": "tools.fuzz.hooks",
    }
    early: list[int] = []
    worker = _worker(server)
    look = threading.Timer(seconds / 4, lambda: early.append(round(peak_memory_mib(worker))))
    look.start()
    try:
        with log.open("wb") as output:
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds + _MORE_SECONDS,
                check=False,
            )
    finally:
        look.cancel()
        look.join()
    late = round(peak_memory_mib(worker))
    return read_outcome(auth, report, log, _answers(server), ((early or [late])[0], late))


def read_outcome(
    auth: str,
    report: Path,
    log: Path,
    answers: Mapping[str, Mapping[str, int]],
    rss_mib: tuple[int, int],
) -> Asked:
    """The outcome of a run by its report, what the server counted and how large it was."""
    found = json.loads(report.read_text()) if report.exists() else {}
    wrong = [*_complaints(found)]
    if found.get("exit_code", 1) and not wrong:
        wrong.append("schemathesis did not finish")
    wrong += growth(rss_mib)
    return Asked(
        auth=auth,
        requests=sum(sum(statuses.values()) for statuses in answers.values()),
        answers=answers,
        rss_mib=rss_mib,
        wrong=tuple(f"{each}, see {log}" for each in wrong),
        log=str(log),
    )


def _complaints(report: Mapping[str, Any]) -> Iterable[str]:
    for failure in report.get("failures", ()):
        yield f"{failure['title']} ({failure['count']}): {', '.join(failure['operations'])[:200]}"
    for error in report.get("errors", ()):
        yield f"error of schemathesis: {json.dumps(error)[:200]}"


def _answers(server: ServerProcess) -> dict[str, dict[str, int]]:
    """What the server has counted, by operation and status."""
    text = requests.get(f"{server.url}/metrics", timeout=10).text
    found: dict[str, dict[str, int]] = {}
    for status, operation, count in _COUNTED.findall(text):
        found.setdefault(operation, {})[status] = int(float(count))
    return found


def _worker(server: ServerProcess) -> int:
    """The process that answers: the only child of the one that watches it."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _make_jobs(kubeconfig: Path, namespace: str) -> None:
    with SyncKubeClient(config=load_config(str(kubeconfig))) as kube:
        job = new_job(kube, namespace, TASKS)
        new_pod(kube, job, 0, "10.1.0.1")
        new_coordinated_job(kube, namespace, COORDINATED)


def _token(kubeconfig: Path, kubectl: Path, namespace: str) -> str:
    """Of an account that may do anything to the jobs, longer than any run."""

    def run_kubectl(*arguments: str) -> str:
        command = [
            str(kubectl),
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            *arguments,
        ]
        return subprocess.check_output(command, text=True, timeout=60).strip()

    account = f"--serviceaccount={namespace}:default"
    run_kubectl("create", "rolebinding", "fuzz", "--clusterrole=cluster-admin", account)
    return run_kubectl("create", "token", "default", "--audience=di-server", "--duration=24h")
