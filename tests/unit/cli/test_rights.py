"""The requests of a command need exactly the rights in docs/reference/cli.md."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from di_cli.live.follow import follow
from tests.unit.cli.conftest import EVENTS, JOBS, Di, install, queued
from tests.unit.sweeps.sweeps import sweep

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs/reference/cli.md"
WORDS: Final = {
    "list": ["list"],
    "list -w": ["list", "-w"],
    "get": ["get", "waits"],
    "describe": ["describe", "x"],
    "why": ["why", "x"],
    "events": ["events", "x"],
    "top": ["top", "x"],
    "export": ["export", "x", "--server", "https://x", "--tensorboard", "runs"],
    "compare": ["compare", "x", "waits", "--metric", "step", "--server", "none"],
    "logs": ["logs", "x"],
    "wait": ["wait", "x", "--timeout", "1"],
    "submit": ["submit", "job.yaml"],
    "submit PROGRAM": ["submit", "train.py"],
    "templates": ["templates"],
    "push": ["push", "coded"],
    "scale": ["scale", "x", "collector=3"],
    "set": ["set", "x", "priority=high"],
    "suspend": ["suspend", "x"],
    "sweep": ["sweep", "-f", "sweep.yaml"],
    "delete": ["delete", "x"],
    "delete -l": ["delete", "-l", "team=a"],
    "exec": ["exec", "x"],
    "simulate": ["simulate", "-f", "job.yaml"],
    "queue": ["queue"],
    "allocation": ["allocation"],
    "history": ["history", "x", "--server", "https://x"],
    "usage": ["usage", "--server", "https://x"],
    "rollback": ["rollback", "x", "--to", "1", "--yes", "--server", "https://x"],
    "login": ["login", "--server", "https://x"],
    "dashboard": ["dashboard", "--no-browser"],
    "doctor": ["doctor"],
    "version": ["version"],
    "bundle": ["bundle", "x", "--yes"],
}
"""A line of each command in the table."""
_ROW: Final = re.compile(r"^\| `di ([a-z-]+(?: -w| -l| PROGRAM)?)` \| (.+) \|$", re.MULTILINE)
OPEN: Final = ("/version", "/apis/diengine.opendilab.org")
"""What Kubernetes lets every user read."""
_OF_KUBECTL: Final = {
    "exec": {"get pods", "create pods/exec"},
    "history": {"get deployments", "get pods", "create pods/portforward"},
}
_VERBS: Final = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_COLLECTIONS: Final = (
    *("dijobs", "pods", "events", "nodes", "deployments", "leases", "resourcequotas"),
    *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
    *("selfsubjectrulesreviews", "selfsubjectaccessreviews", "workloads", "configmaps"),
    *("limitranges", "dijobtemplates", "clusterdijobtemplates", "disweeps"),
)


def _rows() -> dict[str, set[str]]:
    """The documented rights of each command."""
    rows = {
        command: set(re.findall(r"`([a-z]+ [A-Za-z_/]+)`", text))
        for command, text in _ROW.findall(DOCUMENT.read_text())
    }
    for command, rights in _OF_KUBECTL.items():
        rows[command] -= rights
    return rows


def test_the_document_lists_the_rights_of_every_command() -> None:
    assert set(_rows()) == set(WORDS)


@pytest.mark.proves("cli.md#rights/*")
@pytest.mark.parametrize("command", WORDS)
def test_a_command_uses_exactly_its_documented_rights(
    di: Di, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("di_dashboard.main.until_interrupted", lambda: None)
    task = "{type: learner, template: {spec: {containers: [{name: c, image: i}]}}}"
    (tmp_path / "job.yaml").write_text(
        "{apiVersion: diengine.opendilab.org/v2alpha1, kind: DIJob, metadata: {name: y}, "
        f"spec: {{tasks: [{task}]}}}}"
    )
    monkeypatch.setattr("os.execv", lambda *_: None)
    monkeypatch.setattr("shutil.which", lambda _: "kubectl")
    monkeypatch.setattr("di_cli.access.history.History.get", lambda *_: b'{"spec": {}}')
    monkeypatch.setattr("di_cli.commands.observe.listing.follow", partial(follow, seconds=1))
    labelled = di.job("x")
    labelled["metadata"]["labels"] = {"team": "a"}
    di.world.put(f"{JOBS}/x", labelled)
    di.world.put(f"{JOBS}/waits", queued("more is needed"))
    di.node("gpu-1", 8)
    di.pod("x", "learner", 0, 0)
    name = di.pod("x", "collector", 0, 1, conditions=[])
    di.world.logs[name] = ["2026-03-01T11:00:00Z line"]
    about = {"involvedObject": {"kind": "DIJob", "name": "x"}}
    refused = "maximum cpu usage per Pod is 1, but limit is 2"
    di.world.put(f"{EVENTS}/e", {"metadata": {"name": "e"}, "message": refused, **about})
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep()))
    _with_code(di)
    install(di)
    said = di(*WORDS[command])
    assert "a mistake of di" not in said.err
    asked = {right(method, path) for method, path, _ in di.world.requests if path not in OPEN}
    assert asked == _rows()[command]


def _with_code(di: Di) -> None:
    """A job of `train.py` with more bundles than are kept."""
    job = di.job("coded")
    job["spec"]["code"] = {"configMap": "code-0", "sha256": "0" * 64}
    di.world.put(f"{JOBS}/coded", job)
    owner = {"kind": "DIJob", "name": "coded", "uid": "uid-coded"}
    for number in range(8):
        about = {
            "name": f"code-{number}",
            "labels": {"diengine/code-of": "coded"},
            "annotations": {"diengine/code-source": "train.py"},
            "ownerReferences": [owner],
        }
        di.world.put(f"/api/v1/namespaces/rl/configmaps/code-{number}", {"metadata": about})


def right(method: str, path: str) -> str:
    """Verb and resource of a request, as RBAC has them."""
    split = urlsplit(path)
    parts = split.path.strip("/").split("/")
    if parts[-1] in _COLLECTIONS:
        reading = "watch" if parse_qs(split.query).get("watch") else "list"
        return f"{_VERBS.get(method, reading)} {parts[-1]}"
    if "proxy" in parts:
        return f"get {parts[-4]}/proxy"
    if parts[-1] in ("log", "token") or "custom.metrics.k8s.io" in parts:
        return f"{_VERBS.get(method, 'get')} {parts[-3]}/{parts[-1]}"
    return f"{_VERBS.get(method, 'get')} {parts[-2]}"
