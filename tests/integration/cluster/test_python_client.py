"""`di_orchestrator.jobs` against the real API server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from di_kube.config import KubeConfig
from di_kube.resources import CONFIGMAPS, DIJOBS
from di_kube.sync import SyncKubeClient
from di_orchestrator import jobs
from tests.integration.conftest import ApiServer
from tests.waiting import DEADLINE

pytestmark = pytest.mark.usefixtures("crd")
REPORTS = [(1, 10.0, "Running"), (2, 20.0, "Running"), (3, 30.0, "Succeeded")]


def test_a_job_is_submitted_followed_changed_and_deleted_from_python(
    api_server: ApiServer,
    kube_config: KubeConfig,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    with SyncKubeClient(config=kube_config) as kube, jobs.Client(namespace) as client:
        job = client.submit("train.py", collectors=2, args={"lr": 3e-4})
        with pytest.raises(jobs.JobsError, match="dijob/train exists already"):
            client.submit("train.py")
        Path("train.py").write_text("print(2)\n")
        assert job.push() == ["train.py"]
        assert job.scale(collector="+1") == ["collector 2 -> 3"]
        found = kube.get(DIJOBS, "train", namespace)
        assert found["spec"]["tasks"][1]["replicas"] == 3
        assert (
            len(kube.list(CONFIGMAPS, namespace, label_selector="diengine/code-of=train")[0]) == 2
        )
        seen = threading.Semaphore(0)

        def train() -> None:
            for step, value, phase in REPORTS:
                seen.acquire(timeout=DEADLINE)
                progress = {"step": step, "reportedAt": f"2026-03-01T11:00:0{step}Z"}
                status = {"phase": phase, "progress": progress, "profilings": {"return": value}}
                kube.patch(DIJOBS, "train", {"status": status}, namespace, subresource="status")

        threading.Thread(target=train, daemon=True).start()
        for _ in job.watch():
            seen.release()
        assert list(job.wait(timeout=DEADLINE).curves()["return"]) == [10.0, 20.0, 30.0]
        assert job.why().summary.startswith("train has succeeded")
        assert job.logs() == []
        assert [each.name for each in client.list()] == ["train"]
        job.delete(wait=True, timeout=DEADLINE)
        with pytest.raises(jobs.NotFound):
            job.refresh()
