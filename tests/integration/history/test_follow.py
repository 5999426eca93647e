"""di-history beside a real API server: what it has seen, and what it says of what it has not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests

from di_kube.config import KubeConfig
from di_kube.resources import DIJOBS, EVENTS, PODS
from di_kube.sync import SyncKubeClient
from tests.integration.accounts import installed_accounts
from tests.integration.conftest import ApiServer
from tests.integration.di_server import new_job, new_pod, read_job, set_status
from tests.integration.history_process import HistoryProcess, running_history
from tests.integration.service_accounts import new_account, token_of
from tests.postgres import new_database, running_postgres
from tests.unit.history.jobs import clock, condition, ended
from tests.waiting import wait_until

Object = dict[str, Any]


@pytest.fixture
def kube(kube_config: KubeConfig, crd: str) -> Iterator[SyncKubeClient]:
    with SyncKubeClient(config=kube_config) as client:
        yield client


def scale(kube: SyncKubeClient, job: Object, replicas: int, who: str) -> None:
    tasks = read_job(kube, job)["spec"]["tasks"]
    tasks[1]["replicas"] = replicas
    kube.patch(
        DIJOBS,
        job["metadata"]["name"],
        {"spec": {"tasks": tasks}},
        job["metadata"]["namespace"],
        field_manager=who,
    )


def run_and_fail(kube: SyncKubeClient, job: Object) -> str:
    """The job runs, and a pod of it fails; returns the pod's UID."""
    namespace = job["metadata"]["namespace"]
    pod = new_pod(kube, job, 0, "10.1.2.3", task="learner")
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    kube.create(
        PODS,
        {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}},
        namespace,
        subresource="binding",
    )
    state = {"name": "di-container", "restartCount": 0, "ready": False, "state": ended(137)}
    state |= {"image": "busybox", "imageID": ""}
    status = {"phase": "Failed", "startTime": clock(6), "containerStatuses": [state]}
    kube.patch(PODS, name, {"status": status}, namespace, subresource="status")
    failure = {"uid": uid, "pod": name, "exitCode": 137, "reason": "OOMKilled", "time": clock(61)}
    set_status(
        kube,
        job,
        {
            "phase": "Restarting",
            "restarts": 1,
            "failures": [failure],
            "conditions": [
                condition("Running", "False", 61, reason="JobRunning", message=""),
                condition("Restarting", "True", 61, reason="JobRestarting", message="pods failed"),
            ],
        },
    )
    kube.create(
        EVENTS,
        {
            "metadata": {"name": f"{name}.1", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace, "uid": uid},
            "reason": "BackOff",
            "message": "back-off",
            "type": "Warning",
            "lastTimestamp": clock(62),
            "count": 1,
        },
        namespace,
    )
    return str(uid)


def kinds(found: Object) -> set[str]:
    return {each["kind"] for each in found["timeline"]}


def whole(history: HistoryProcess, namespace: str, expected: set[str]) -> Object:
    """All that is told of the job, as soon as all of it is."""

    def told() -> Object:
        found = history.job(namespace, "cartpole")
        assert kinds(found) >= expected, found
        # The timeline is read after the job, and a write can come between.
        assert ("deleted" in expected) == bool(found["job"].get("deleted")), found
        assert any(each.get("reason") == "BackOff" for each in found["timeline"]), found
        assert found["placements"], found
        assert found["placements"][0]["outcome"] == "Failed", found
        assert found["logs"], found
        return found

    return wait_until(told, what="the history of the job")


def check(found: Object, uid: str) -> None:
    """What `run_and_fail` and a scaling leave behind, once."""
    timeline = found["timeline"]
    of_kind = {kind: [each for each in timeline if each["kind"] == kind] for kind in kinds(found)}
    (scaling,) = of_kind["scaling"]
    assert (scaling["task"], scaling["before"], scaling["after"], scaling["who"]) == (
        "collector",
        2,
        4,
        "kubectl-scale",
    )
    (failure,) = of_kind["failure"]
    assert (failure["uid"], failure["exitCode"], failure["reason"]) == (uid, 137, "OOMKilled")
    (restart,) = of_kind["restart"]
    assert (restart["restarts"], restart["at"]) == (1, "2026-01-01T12:01:01.000Z")
    # Others may be of the scheduler.
    (event,) = [each for each in of_kind["event"] if each["reason"] == "BackOff"]
    assert event["object"] == "Pod/cartpole-0"
    (placement,) = found["placements"]
    assert (placement["node"], placement["task"], placement["rank"], placement["exitCode"]) == (
        "n1",
        "learner",
        0,
        137,
    )
    assert [each["number"] for each in found["revisions"]] == [1, 2]
    # No kubelet has its log, and that is said.
    assert [each["note"] != "" for each in found["logs"]] == [True]


def test_what_happened_is_told_when_the_job_is_gone(
    kube: SyncKubeClient, namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/history.db"
    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        job = new_job(kube, namespace)
        wait_until(lambda: history.job(namespace, "cartpole"))
        scale(kube, job, 4, "kubectl-scale")
        uid = run_and_fail(kube, job)
        expected = {"scaling", "failure", "restart", "phase", "event"}
        check(whole(history, namespace, expected), uid)
        kube.delete(PODS, "cartpole-0", namespace)
        kube.delete(DIJOBS, "cartpole", namespace)

        found = whole(history, namespace, {*expected, "deleted"})

    check(found, uid)
    assert found["job"]["deleted"]
    # Nobody was away.
    assert "gap" not in kinds(found)
    first = found["revisions"][0]["number"]
    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        manifest = history.get(f"jobs/{namespace}/cartpole/revisions/{first}").json()
        check(history.job(namespace, "cartpole"), uid)
    assert manifest["spec"]["tasks"][1]["replicas"] == 2


def test_what_happens_while_it_is_away_is_filled_in_or_called_a_gap(
    kube: SyncKubeClient, namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/history.db"
    job, other = new_job(kube, namespace), new_job(kube, namespace, "other")
    still = new_job(kube, namespace, "still")
    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        for each in (job, other, still):
            name = each["metadata"]["name"]
            wait_until(partial(history.job, namespace, name))
        # A mark says until when all is known.
        wait_until(lambda: _followed(database) is not None)
        history.kill()
    since = _followed(database)
    assert since is not None
    _set_followed(database, since - 120_000)
    scale(kube, job, 4, "kubectl-scale")
    uid = run_and_fail(kube, job)
    kube.delete(DIJOBS, "other", namespace)

    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        expected = {"scaling", "failure", "restart", "phase", "event", "gap"}
        found = whole(history, namespace, expected)
        gone = wait_until(lambda: "deleted" in kinds(history.job(namespace, "other")))
        lost = history.job(namespace, "other")["timeline"][-1]
        same = history.job(namespace, "still")

    check(found, uid)
    (gap,) = [each for each in found["timeline"] if each["kind"] == "gap"]
    assert {"spec.tasks", "status.phase", "status.restarts"} <= set(gap["changed"])
    assert gone
    assert lost["after"] < lost["at"]
    # Of what has not changed there is nothing to say.
    assert kinds(same) == set()


@pytest.mark.extended
def test_replicas_of_one_database_write_nothing_twice(
    kube: SyncKubeClient, namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        database = new_database(stack.enter_context(running_postgres()), "history")
        replicas = [
            stack.enter_context(running_history(tmp_path, api_server.kubeconfig, database))
            for _ in range(2)
        ]
        job = new_job(kube, namespace)
        scale(kube, job, 4, "kubectl-scale")
        uid = run_and_fail(kube, job)
        expected = {"scaling", "failure", "restart", "phase", "event"}
        check(whole(replicas[0], namespace, expected), uid)
        # The other one has seen all of it, too, and written what it had to write.
        for each in replicas:
            wait_until(partial(_has_written, each))
        check(replicas[1].job(namespace, "cartpole"), uid)


def test_a_database_that_is_away_loses_nothing(
    kube: SyncKubeClient, namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    database = f"sqlite:///{folder}/history.db"
    folder.mkdir()
    with running_history(tmp_path, api_server.kubeconfig, database) as history:
        job = new_job(kube, namespace)
        wait_until(lambda: history.job(namespace, "cartpole"))
        with _locked(database):
            scale(kube, job, 4, "kubectl-scale")
            uid = run_and_fail(kube, job)
            wait_until(lambda: history.metric("di_history_records_waiting") > 0)
        check(whole(history, namespace, {"scaling", "failure", "event"}), uid)


@pytest.mark.proves(
    "history.md#asking/403",
    "history.md#asking/of-the-api-server-that-of-the-kubeconfig",
    "history.md#asking/of-the-audience-di-history",
)
def test_a_user_who_can_read_a_job_can_read_its_history(
    kube: SyncKubeClient, namespace: str, api_server: ApiServer, tmp_path: Path
) -> None:
    """The permissions of the chart's account are enough to check tokens and permissions."""
    job = new_job(kube, namespace)
    rules = [{"apiGroups": ["diengine.opendilab.org"], "resources": ["dijobs"], "verbs": ["get"]}]
    new_account(kube, namespace, "reader", rules)
    new_account(kube, namespace, "nobody", [])
    path = f"jobs/{namespace}/cartpole"
    database = f"sqlite:///{tmp_path}/history.db"
    with (
        installed_accounts(api_server, namespace, tmp_path, "history.enabled=true") as accounts,
        running_history(
            tmp_path, accounts.kubeconfig("di-history"), database, auth="required"
        ) as history,
    ):
        run_and_fail(kube, job)

        def answer(name: str, audience: str = "", rest: str = "") -> requests.Response:
            token = token_of(kube, namespace, name, audience=audience)
            return history.get(f"{path}{rest}", token)

        def is_whole() -> bool:
            found = answer("reader").json()
            assert {"failure", "restart", "event"} <= kinds(found)
            # The log is lost for want of a kubelet, and not of a right.
            (log,) = found["logs"]
            assert "orbidden" not in log["note"], log
            return True

        wait_until(is_whole)
        assert answer("reader", "di-history").status_code == 200
        assert answer("nobody").status_code == 403
        assert answer("nobody", "di-history").status_code == 403
        assert answer("reader", "di-server").status_code == 401
        assert answer("reader", rest="/logs/cartpole-0").status_code == 403
        assert history.get(path).status_code == 401


def _has_written(history: HistoryProcess) -> bool:
    written = history.metric("di_history_records_total")
    return written > 5 and history.metric("di_history_records_waiting") == 0


def _followed(database: str) -> int | None:
    with sqlite3.connect(database.removeprefix("sqlite:///"), timeout=60) as connection:
        found = connection.execute("SELECT at FROM marks").fetchall()
    connection.close()
    return found[0][0] if found else None


def _set_followed(database: str, at: int) -> None:
    """As if it had ended long ago."""
    with sqlite3.connect(database.removeprefix("sqlite:///"), timeout=60) as connection:
        connection.execute("UPDATE marks SET at = ?", (at,))
    connection.close()


@contextmanager
def _locked(database: str) -> Iterator[None]:
    """Nobody else can write."""
    connection = sqlite3.connect(
        database.removeprefix("sqlite:///"), timeout=60, isolation_level=None
    )
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()
