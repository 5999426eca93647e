"""The same file applied again, after scaling and by several managers, with kubectl itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from di_api import names
from tests.integration.conftest import ApiServer
from tests.integration.webhook_process import WebhookProcess, webhook_process

pytestmark = [pytest.mark.usefixtures("crd", "admission")]
SPEAKER = "system:serviceaccount:di-system:di-server"
TEMPLATE = {
    "spec": {
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {"name": "di-container", "image": "demo", "ports": [{"containerPort": 8080}]}
        ],
    }
}
SCALED: dict[str, Any] = {
    "apiVersion": names.API_VERSION,
    "kind": names.KIND,
    "metadata": {"name": "scaled"},
    "spec": {
        "tasks": [
            {"type": "learner", "template": TEMPLATE},
            {"type": "collector", "minReplicas": 1, "maxReplicas": 4, "template": TEMPLATE},
        ]
    },
}
CLIENT_SIDE: tuple[str, ...] = ()
SERVER_SIDE = ("--server-side", "--field-manager=flux")
FORCED = (*SERVER_SIDE, "--force-conflicts")
WAYS = pytest.mark.parametrize(
    "way", [CLIENT_SIDE, SERVER_SIDE, FORCED], ids=["client-side", "server-side", "forced"]
)


@pytest.fixture(scope="module")
def webhook(
    api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebhookProcess]:
    environment = {"DI_WEBHOOK_SPEAKERS": SPEAKER}
    folder = tmp_path_factory.mktemp("webhook")
    with webhook_process(folder, api_server.host_address, environment=environment) as running:
        yield running


class Files:
    """Files that users apply in a namespace."""

    def __init__(self, program: Path, kubeconfig: Path, namespace: str) -> None:
        self._command = [str(program), f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    def apply(self, file: dict[str, Any], *options: str, user: str = "ann") -> str:
        return self._run(["apply", *options], file, user)

    def differs(self, file: dict[str, Any], *options: str) -> bool:
        return self.run(["diff", *options], file, "ann").returncode != 0

    def patch(self, patch: Any, kind: str = "json") -> str:
        return self._run(
            ["patch", "dijob/scaled", f"--type={kind}", f"--patch={json.dumps(patch)}"]
        )

    def scale(self, task: int, **fields: Any) -> None:
        """As `di scale`, di-server and the operator do: a patch of the fields alone."""
        self.patch(
            [
                {"op": "add", "path": f"/spec/tasks/{task}/{field}", "value": value}
                for field, value in fields.items()
            ]
        )

    def stored(self) -> dict[str, Any]:
        found = self._run(["get", "dijob/scaled", "--output=json", "--show-managed-fields"])
        body: dict[str, Any] = json.loads(found)
        return body

    def task(self, index: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = self.stored()["spec"]["tasks"][index]
        return found

    def version(self) -> str:
        version: str = self.stored()["metadata"]["resourceVersion"]
        return version

    def run(
        self, command: list[str], file: dict[str, Any] | None = None, user: str = "ann"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                *self._command,
                f"--as={user}",
                "--as-group=system:masters",
                *command,
                *(["--filename=-"] if file else []),
            ],
            input=json.dumps(file) if file else None,
            text=True,
            check=False,
            capture_output=True,
            timeout=60,
        )

    def _run(
        self, command: list[str], file: dict[str, Any] | None = None, user: str = "ann"
    ) -> str:
        done = self.run(command, file, user)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def files(api_server: ApiServer, namespace: str) -> Files:
    return Files(api_server.binary("kubectl"), api_server.kubeconfig, namespace)


def changed(change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    file = deepcopy(SCALED)
    change(file["spec"])
    return file


def prioritised(spec: dict[str, Any]) -> None:
    spec["priority"] = "high"


def based(spec: dict[str, Any]) -> None:
    """Write the template once, as the base of both tasks."""
    spec["template"] = deepcopy(TEMPLATE)
    del spec["tasks"][0]["template"]
    own = {"name": "di-container", "command": ["collect"]}
    spec["tasks"][1]["template"] = {"spec": {"containers": [own]}}


def sized(spec: dict[str, Any]) -> None:
    spec["tasks"][1]["replicas"] = 2


@pytest.mark.proves("jobs-in-git.md#applied-by-two")
@WAYS
def test_an_unchanged_file_writes_nothing_by_any_user(files: Files, way: tuple[str, ...]) -> None:
    files.apply(SCALED, *way)
    before = files.version()
    assert not files.differs(SCALED, *way)
    files.apply(SCALED, *way, user="bob")
    assert files.version() == before


@pytest.mark.proves("dijob.md#one-template-for-all-tasks")
@WAYS
def test_a_file_with_a_base_is_stored_merged_and_writes_nothing_again(
    files: Files, way: tuple[str, ...]
) -> None:
    file = changed(based)
    files.apply(file, *way)
    learner, collector = files.stored()["spec"]["tasks"]
    assert learner["template"]["spec"]["containers"][0]["image"] == "demo"
    assert collector["template"]["spec"]["containers"][0]["image"] == "demo"
    assert collector["template"]["spec"]["containers"][0]["command"] == ["collect"]
    assert "template" not in files.stored()["spec"]
    before = files.version()
    assert not files.differs(file, *way)
    files.apply(file, *way, user="bob")
    assert files.version() == before
    prioritised(file["spec"])
    files.apply(file, *way)
    assert files.stored()["spec"]["priority"] == "high"
    file["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    refused = files.run(["apply", *way], file)
    assert "spec.tasks[0].template" in refused.stderr


@pytest.mark.proves("jobs-in-git.md#applied-by-two")
def test_two_managers_of_the_same_file_do_not_write_by_turns(files: Files) -> None:
    files.apply(SCALED)
    files.apply(SCALED, "--server-side", "--field-manager=argo")
    files.apply(SCALED, "--server-side", "--field-manager=flux")
    before = files.version()
    for _ in range(2):
        files.apply(SCALED, "--server-side", "--field-manager=argo", user="bob")
        files.apply(SCALED, "--server-side", "--field-manager=flux", user="eve")
    assert files.version() == before


def test_a_manager_that_writes_the_job_as_it_is_owns_no_task(files: Files) -> None:
    files.apply(SCALED, *SERVER_SIDE)
    whole = {**SCALED, "spec": files.stored()["spec"]}
    files.apply(whole, "--server-side", "--field-manager=argo")
    files.apply(SCALED, *SERVER_SIDE)


@pytest.mark.proves("jobs-in-git.md#what-a-file-leaves-alone/replicas-of-a-task")
@WAYS
def test_a_file_without_replicas_leaves_those_of_a_scaler(
    files: Files, way: tuple[str, ...]
) -> None:
    files.apply(SCALED, *way)
    assert files.task()["replicas"] == 1
    files.scale(1, replicas=3)
    assert not files.differs(SCALED, *way)
    files.apply(SCALED, *way)
    assert files.task()["replicas"] == 3
    files.apply(changed(prioritised), *way)
    assert files.task()["replicas"] == 3
    assert files.stored()["spec"]["priority"] == "high"
    files.apply(changed(sized), *way)
    assert files.task()["replicas"] == 2


@pytest.mark.proves(
    "jobs-in-git.md#what-a-file-leaves-alone/minreplicas-maxreplicas-vacant",
    "jobs-in-git.md#what-a-file-leaves-alone/restartedat-suspend-and-other-fields-of",
)
@WAYS
def test_a_file_leaves_what_others_have_made_of_a_task(files: Files, way: tuple[str, ...]) -> None:
    bare = changed(lambda spec: spec["tasks"][1].pop("maxReplicas"))
    files.apply(bare, *way)
    made = {"vacant": [0], "restartedAt": "now", "maxReplicas": 6, "replicas": 3}
    files.scale(1, **made)
    files.patch({"spec": {"restartedAt": "now"}}, "merge")
    files.apply(bare, *way)
    assert {**files.task(), **made} == files.task()
    assert files.stored()["spec"]["restartedAt"] == "now"


@pytest.mark.proves(
    "jobs-in-git.md#what-a-file-leaves-alone/a-bound-that-the-file-had-before-applied-the-bound-goes"
)
def test_a_bound_that_is_taken_out_of_the_file_goes(files: Files) -> None:
    files.apply(SCALED)
    files.scale(1, replicas=3)
    files.apply(changed(lambda spec: spec["tasks"][1].pop("maxReplicas")))
    assert "maxReplicas" not in files.task()
    assert files.task()["replicas"] == 3


@pytest.mark.proves(
    "jobs-in-git.md#what-a-file-leaves-alone/"
    "a-bound-that-the-file-had-before-applied-the-bound-stays-with-a-warning-kubectl"
)
def test_a_bound_that_is_taken_out_of_a_server_side_file_goes_by_an_edit(files: Files) -> None:
    files.apply(SCALED, *SERVER_SIDE)
    less = changed(lambda spec: spec["tasks"][1].pop("maxReplicas"))
    said = files.run(["apply", *SERVER_SIDE], less)
    assert said.returncode == 0
    assert "Warning: spec.tasks[1].maxReplicas: 4 is kept" in said.stderr
    assert "Warning" not in files.run(["apply", *SERVER_SIDE], SCALED).stderr
    tasks = files.stored()["spec"]["tasks"]
    assert tasks[1].pop("maxReplicas") == 4
    files.patch({"spec": {"tasks": tasks}}, "merge")
    assert "maxReplicas" not in files.task()


@pytest.mark.proves("jobs-in-git.md#edits")
def test_a_limit_that_an_edit_takes_away_goes(files: Files) -> None:
    files.apply(SCALED)
    assert files.task()["backoffLimit"] == "Unlimited"
    tasks = files.stored()["spec"]["tasks"]
    del tasks[1]["backoffLimit"]
    files.patch({"spec": {"tasks": tasks}}, "merge")
    assert "backoffLimit" not in files.task()
