"""Code on a claim before a real API server: what is kept, for which job, and until when.

There is no kubelet: the test marks the pods as running, and the program of the pod runs here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import CLAIMS, CONFIGMAPS, DIJOBS, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.unit.cli.code.claim_folder import claim_folder

pytestmark = pytest.mark.usefixtures("crd")
Object = dict[str, Any]


@contextmanager
def kubelet(kube: SyncKubeClient, namespace: str) -> Iterator[list[Object]]:
    """Pods run as soon as they are created; yields those that did."""
    seen: list[Object] = []
    ended = threading.Event()

    def start() -> None:
        while not ended.wait(0.1):
            for pod in kube.list(PODS, namespace)[0]:
                if pod["status"].get("phase") == "Pending":
                    seen.append(pod)
                    status = {"status": {"phase": "Running"}}
                    name = pod["metadata"]["name"]
                    kube.patch(PODS, name, status, namespace, subresource="status")

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of bundles on the claim."""
    return claim_folder(tmp_path, monkeypatch)


@pytest.mark.proves("own-code.md#large-code")
def test_bundles_on_a_claim_live_as_long_as_a_job_has_their_names(
    api_server: ApiServer,
    namespace: str,
    *,
    kube_config: KubeConfig,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("di_cli.code.bundle.MOST_IN_PARTS", 4096)
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.chdir(own)
    program = own / "train.py"
    program.write_text("print(1)\n")

    def said(*words: str) -> str:
        capsys.readouterr()
        code = run([*words, "-n", namespace])
        out, err = capsys.readouterr()
        assert code == ExitCode.DONE, err
        return out

    def bundles() -> set[str]:
        return {each.name for each in folder.iterdir()}

    def age() -> None:
        for each in folder.iterdir():
            os.utime(each, (0, 0))

    with SyncKubeClient(config=kube_config) as kube, kubelet(kube, namespace) as pods:

        def code(name: str) -> Object:
            found: Object = kube.get(DIJOBS, name, namespace)["spec"]["code"]
            return found

        size = {"requests": {"storage": "1Gi"}}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared", "labels": {"diengine/code-store": "true"}},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": size, "storageClassName": ""},
        }
        kube.create(CLAIMS, claim, namespace)
        said("submit", "train.py")
        first = code("train")
        assert (first["persistentVolumeClaim"], bundles()) == ("shared", {first["sha256"]})
        # The same files of another job are the same bundle.
        said("submit", "train.py", "--name", "other")
        assert bundles() == {first["sha256"]}
        age()
        program.write_text("print(2)\n")
        assert said("push", "train") == "dijob/train restarts with new code: train.py\n"
        second = code("train")
        # The first one is kept for a rollback, and for the other job.
        assert bundles() == {first["sha256"], second["sha256"]}
        names = {first["configMap"], second["configMap"]}
        found, _ = kube.list(CONFIGMAPS, namespace, label_selector="diengine/code-of=train")
        assert {each["metadata"]["name"] for each in found} == names
        uid = kube.get(DIJOBS, "train", namespace)["metadata"]["uid"]
        for each in found:
            assert [one["uid"] for one in each["metadata"]["ownerReferences"]] == [uid]
        for name in ("train", "other"):
            kube.delete(DIJOBS, name, namespace)
        for each in kube.list(CONFIGMAPS, namespace, label_selector="diengine/code-store=true")[0]:
            # The garbage collector deletes the ConfigMaps of a deleted job, sooner or later.
            with suppress(NotFound):
                kube.delete(CONFIGMAPS, each["metadata"]["name"], namespace)
        age()
        program.write_text("print(3)\n")
        said("submit", "train.py", "--name", "third")
        assert bundles() == {code("third")["sha256"]}
        assert len(pods) == 4
        # Every pod is gone, or about to be.
        left, _ = kube.list(PODS, namespace)
        assert all(each["metadata"].get("deletionTimestamp") for each in left)
