"""One reconcile: decided from what is known, one status write, retried when objects changed."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Mapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from di_api.companions import CompanionKind
from di_api.names import API_VERSION, KIND, LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_kube.errors import Conflict, Forbidden, Unavailable
from di_kube.resources import DIJOBS, PODS
from di_operator.lifecycle.decide import decide
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.decision import Decision
from di_operator.process.controller import Outdated
from di_operator.reconcile.job_reader import READ_AT_ONCE
from di_operator.reconcile.reconciler import ATTEMPTS, Reconciler
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import Object
from tests.unit.operator.reconciling import KEY, Bench


def test_a_new_job_gets_its_objects_and_one_status_write() -> None:
    bench = Bench()
    bench.submit()
    assert bench.reconcile() is None
    assert bench.status["phase"] == "Starting"
    assert bench.api.calls == {
        ("create", "Service"): 1,
        ("create", "Pod"): 2,
        ("replace", "DIJob"): 1,
    }
    assert bench.events


def test_a_second_reconcile_without_changes_writes_nothing() -> None:
    bench = Bench()
    bench.submit()
    bench.reconcile()
    bench.api.calls.clear()
    bench.events.clear()
    assert bench.reconcile() != 0.0
    assert not bench.api.calls
    assert bench.events == []


def ended(**spec: Any) -> Bench:
    """A job of two pods that has just become Succeeded."""
    bench = Bench()
    bench.submit(**spec)
    bench.settle()
    bench.run_pods()
    for index in range(2):
        pod = bench.api.objects["Pod", "ns", f"a-work-{index}"]
        succeeded = bench.api.put(PODS, "ns", {**pod, "status": {"phase": "Succeeded"}})
        bench.known.observe(PODS, succeeded)
    while bench.status["phase"] != "Succeeded":
        bench.reconcile()
    return bench


@pytest.mark.parametrize("ttl", [None, 600])
def test_a_finished_job_is_settled_by_the_reconcile_that_deletes_its_service(
    ttl: int | None,
) -> None:
    bench = ended(ttlSecondsAfterFinished=ttl)
    assert bench.known.settled.due == []
    bench.reconcile()
    assert ("delete", "Service") in bench.api.calls
    assert [due is not None for due in bench.known.settled.due] == [ttl is not None]


def test_a_finished_job_is_not_settled_while_its_pods_are_being_deleted() -> None:
    bench = ended(cleanPodPolicy="All")
    bench.reconcile()
    assert ("delete", "Pod") in bench.api.calls
    assert bench.known.settled.due == []
    bench.reconcile()
    assert bench.known.settled.due == [None]


def test_a_finished_job_is_not_settled_by_a_refused_deletion() -> None:
    bench = ended()
    bench.refuse(Forbidden, kind="Service", verb="delete")
    with pytest.raises(Forbidden):
        bench.reconcile()
    assert bench.known.settled.due == []


@pytest.mark.proves("lifecycle.md#reconciles-of-a-job")
def test_a_job_whose_pod_was_refused_is_reconciled_again() -> None:
    bench = Bench()
    bench.submit()
    bench.refuse(Forbidden, kind="Pod")
    assert bench.reconcile() is not None


def test_an_unknown_job_needs_no_reconcile() -> None:
    bench = Bench()
    assert bench.reconcile() is None
    assert not bench.api.calls


def test_a_job_deleted_unseen_ends_the_reconcile() -> None:
    bench = Bench()
    stored = bench.submit(suspend=True)
    bench.api.objects.clear()
    assert bench.reconcile() is None
    assert bench.known.gone == {stored["metadata"]["uid"]}
    assert bench.events == []


def running() -> Bench:
    bench = Bench()
    bench.submit()
    bench.reconcile()
    bench.run_pods()
    bench.api.calls.clear()
    return bench


def test_a_pod_missing_from_the_cache_is_not_counted_as_lost() -> None:
    bench = running()
    del bench.known.objects["Pod", "a-work-1"]
    bench.reconcile()
    assert bench.status["phase"] == "Running"
    assert bench.status["reschedules"] == 0
    assert bench.api.calls == {("list", "Pod"): 1}
    assert ("Pod", "a-work-1") in bench.known.objects


def test_a_lost_pod_is_counted_once_and_replaced() -> None:
    bench = running()
    del bench.known.objects["Pod", "a-work-1"]
    del bench.api.objects["Pod", "ns", "a-work-1"]
    bench.settle()
    assert bench.status["reschedules"] == 1
    assert bench.api.calls["create", "Pod"] == 1
    assert bench.api.calls["list", "Pod"] == 1


def test_a_pod_deleted_after_its_end_is_remembered_until_the_status_has_it() -> None:
    bench = running()
    pod = bench.known.objects.pop(("Pod", "a-work-1"))
    del bench.api.objects["Pod", "ns", "a-work-1"]
    uid = bench.api.objects["DIJob", "ns", "a"]["metadata"]["uid"]
    bench.deleted[uid] = [{**pod, "status": {"phase": "Succeeded"}}]
    bench.refuse(Unavailable, verb="replace", kind="DIJob")
    with pytest.raises(Unavailable):
        bench.reconcile()
    assert bench.deleted[uid]

    bench.api.before = lambda verb, kind, name: None
    bench.settle()
    assert bench.status["completedIndexes"] == {"work": "1"}
    assert bench.deleted[uid] == []
    bench.settle()
    assert ("create", "Pod") not in bench.api.calls


def test_a_pod_deleted_after_its_end_is_remembered_while_the_spec_is_unreadable() -> None:
    bench = running()
    pod = bench.known.objects.pop(("Pod", "a-work-1"))
    del bench.api.objects["Pod", "ns", "a-work-1"]
    job = bench.api.objects["DIJob", "ns", "a"]
    bench.deleted[job["metadata"]["uid"]] = [{**pod, "status": {"phase": "Succeeded"}}]
    for tasks in ("unreadable", job["spec"]["tasks"]):
        edited = {**bench.api.objects["DIJob", "ns", "a"], "spec": {"tasks": tasks}}
        edited["metadata"] = {**edited["metadata"], "generation": 2 + (tasks != "unreadable")}
        bench.known.observe(DIJOBS, bench.api.put(DIJOBS, "ns", edited))
        bench.settle()
    assert bench.status["completedIndexes"] == {"work": "1"}
    assert ("create", "Pod") not in bench.api.calls


def test_a_job_deleted_unseen_gets_no_further_pods() -> None:
    bench = Bench()
    stored = bench.submit()
    waiting = {**stored, "status": {"phase": "Pending"}}
    bench.known.observe(DIJOBS, waiting)
    bench.api.objects.clear()
    assert bench.reconcile() == 0.0
    assert bench.known.gone == {stored["metadata"]["uid"]}
    assert bench.api.calls == {("get", "DIJob"): 1}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"generation": 2}, id="another spec"),
        pytest.param({"deletionTimestamp": "2026-01-01T12:00:00Z"}, id="deleted, and still there"),
        pytest.param({"uid": "later"}, id="another job of the name"),
        pytest.param(None, id="gone"),
    ],
)
def test_pod_creation_stops_when_the_job_changes(
    change: Object | None,
) -> None:
    bench = Bench()
    job = bench.submit(replicas=1000)

    def after_some(verb: str, kind: str, name: str) -> None:
        if bench.api.calls["create", "Pod"] < 100:
            return
        if change is None:
            bench.known.objects.pop(("DIJob", "a"), None)
        else:
            bench.known.observe(DIJOBS, {**job, "metadata": job["metadata"] | change})

    bench.api.before = after_some
    assert bench.reconcile() == 0.0
    assert bench.api.calls["create", "Pod"] < 500
    # It would tell of all thousand.
    assert bench.api.calls["replace", "DIJob"] == 0
    assert bench.events == []


def test_a_status_change_does_not_stop_pod_creation() -> None:
    bench = Bench()
    job = bench.submit(replicas=40)

    def report(verb: str, kind: str, name: str) -> None:
        if kind == "Pod":
            bench.known.observe(DIJOBS, {**job, "status": {"profilings": {"x": 1}}})

    bench.api.before = report
    bench.reconcile()
    assert bench.api.calls["create", "Pod"] == 40


def test_a_status_decided_from_an_old_read_is_decided_again() -> None:
    bench = Bench()
    old = bench.submit()
    # Another client wrote meanwhile: the profilings must survive and the old version must not win.
    newer = {**old, "status": {"profilings": {"episodes": 3}}}
    bench.api.put(DIJOBS, "ns", newer)
    assert bench.reconcile() == 0.0
    assert bench.status["phase"] == "Starting"
    assert bench.status["profilings"] == {"episodes": 3}
    assert bench.api.calls["create", "Pod"] == 2
    assert bench.api.calls["get", "DIJob"] == 1


def test_endless_status_conflicts_do_not_hold_a_worker() -> None:
    bench = Bench()
    bench.submit()

    bench.refuse(Conflict, verb="replace")
    with pytest.raises(Conflict):
        bench.reconcile()
    assert bench.api.calls["replace", "DIJob"] == ATTEMPTS
    assert bench.api.calls["create", "Pod"] == 2
    assert bench.events == []


def test_a_name_that_stays_taken_does_not_hold_a_worker() -> None:
    bench = Bench()
    job = bench.submit()
    ending = {"uid": "u", "deletionTimestamp": "2026-01-01T12:00:00Z"}
    owner = {"apiVersion": API_VERSION, "kind": KIND, "controller": True}
    named = {key: job["metadata"][key] for key in ("name", "uid")}
    labels = {LABEL_JOB: "a", LABEL_OPERATOR: OPERATOR_NAME}
    metadata = {"name": "a-work-1", "labels": labels, "ownerReferences": [owner | named]}
    pod = {"metadata": metadata | ending}
    bench.api.put(PODS, "ns", pod)
    # The watch and the reads are behind: nothing of it is taken in.
    bench.known.observe = lambda resource, body, **_: None  # type: ignore[method-assign]
    with pytest.raises(Outdated, match="a-work-1"):
        bench.reconcile()
    assert bench.api.calls["create", "Service"] == ATTEMPTS


def test_failed_actions_lead_to_no_status_and_no_event() -> None:
    bench = Bench()
    bench.submit()

    bench.refuse(Unavailable, kind="Pod")
    with pytest.raises(Unavailable):
        bench.reconcile()
    assert bench.status == {}
    assert bench.events == []


@pytest.mark.proves("events.md#of-its-life/quotaexceeded")
def test_a_refused_pod_makes_the_job_wait_for_its_backoff() -> None:
    bench = Bench()
    bench.submit()

    bench.refuse(Forbidden, "exceeded quota: q", verb="create", kind="Pod")
    bench.reconcile()
    assert bench.status["phase"] == "Pending"
    assert [event.reason for event in bench.events] == ["QuotaExceeded"]
    bench.api.calls.clear()
    pause = bench.reconcile()
    assert pause is not None
    assert pause > 1
    assert not bench.api.calls


def test_a_pod_of_an_earlier_job_is_deleted_first() -> None:
    bench = Bench()
    bench.submit()
    reference = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": "a",
        "uid": "earlier",
        "controller": True,
    }
    labels = {LABEL_JOB: "a", "diengine/operator": "di-operator"}
    metadata = {"name": "a-work-1", "labels": labels, "ownerReferences": [reference]}
    bench.api.put(PODS, "ns", {"metadata": metadata})
    bench.settle()
    owners = {
        body["metadata"]["ownerReferences"][0]["uid"]
        for (kind, _, _), body in bench.api.objects.items()
        if kind == "Pod"
    }
    assert owners == {bench.api.objects["DIJob", "ns", "a"]["metadata"]["uid"]}


@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-goes-on-and-a-condition",
    "events.md#of-problems/reconcilefailed",
)
def test_a_defect_is_a_condition_until_the_next_successful_reconcile() -> None:
    bench = Bench()
    bench.submit()
    for _ in range(2):
        bench.report(ZeroDivisionError("no such thing"))
    assert bench.api.calls["replace", "DIJob"] == 1
    (told,) = bench.status["conditions"]
    assert (told["type"], told["status"], told["reason"]) == (
        "ReconcileFailed",
        "True",
        "ZeroDivisionError",
    )
    assert "no such thing" in told["message"]
    assert [event.reason for event in bench.events] == ["ReconcileFailed"] * 2
    bench.reconcile()
    after = {each["type"]: each["status"] for each in bench.status["conditions"]}
    assert after["ReconcileFailed"] == "False"
    assert after["Starting"] == "True"


def test_a_defect_in_a_deleted_job_is_not_reported() -> None:
    bench = Bench()
    bench.report(ZeroDivisionError("no such thing"))
    assert (bench.events, bench.api.calls) == ([], {})


def test_other_tasks_run_while_the_pods_of_a_large_job_are_read() -> None:
    bench = Bench()
    bench.submit(replicas=2 * READ_AT_ONCE)
    bench.reconcile()
    turns: list[int] = [0]
    read: list[tuple[int, bool]] = []

    def note(raw: Mapping[str, Any]) -> Pod:
        read.append((turns[0], gc.isenabled()))
        return Pod.read(raw)

    bench.read_pod = note

    async def beside() -> None:
        async def others() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(others())
        await bench.reconciler().reconcile(KEY)
        running.cancel()

    virtual_time.run(beside())
    pods = 2 * READ_AT_ONCE
    ahead, decided = read[:pods], read[pods : 2 * pods]
    assert len({turn for turn, _ in ahead}) == 2
    # The view itself is made at one moment, and with the collector off.
    assert len(set(decided)) == 1
    assert not decided[0][1]
    assert gc.isenabled()


def test_a_pod_that_is_deleted_while_others_are_read_is_not_remembered() -> None:
    bench = Bench()
    bench.submit(replicas=2 * READ_AT_ONCE)
    bench.reconcile()
    *_, last = bench.known.pods(KEY)
    read: list[str] = []

    def note(raw: Mapping[str, Any]) -> Pod:
        bench.known.forget(last["metadata"]["uid"])
        read.append(raw["metadata"]["uid"])
        return Pod.read(raw)

    bench.read_pod = note
    virtual_time.run(bench.reader().read_ahead(KEY))
    assert len(read) == 2 * READ_AT_ONCE - 1
    assert last["metadata"]["uid"] not in read


def test_other_tasks_run_between_the_snapshot_and_the_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.submit(replicas=READ_AT_ONCE + 1)
    order: list[str] = []

    def look(*given: Any, **options: Any) -> Snapshot:
        # A timer, as an answer of the API server, is seen when the loop comes round.
        asyncio.get_running_loop().call_later(0, order.append, "another")
        order.append("look")
        return read_snapshot(*given, **options)

    def note(*given: Any) -> Decision:
        order.append("decision")
        return decide(*given)

    monkeypatch.setattr("di_operator.reconcile.job_reader.read_snapshot", look)
    monkeypatch.setattr("di_operator.reconcile.reconciler.decide", note)
    bench.reconcile()
    assert order[:3] == ["look", "another", "decision"]


def test_each_action_for_a_job_is_logged_once() -> None:
    bench = Bench()
    uid = bench.submit()["metadata"]["uid"]
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        bench.reconcile()
        bench.reconcile()
    about = {"namespace": "ns", "name": "a", "uid": uid}
    assert all(about.items() <= line.items() for line in lines)
    done = [(line["kind"], line["object"]) for line in lines if line["event"] == "created"]
    assert sorted(done) == [("Pod", "a-work-0"), ("Pod", "a-work-1"), ("Service", "di-a")]
    phases = [line for line in lines if line["event"] == "phase"]
    assert [(line["before"], line["after"]) for line in phases] == [(None, "Starting")]
    # One line a job and not one a pod, unless the log level asks for more.
    assert {line["log_level"] for line in lines if line["event"] != "phase"} == {"debug"}


def test_a_refusal_is_logged_with_the_message_of_the_refuser() -> None:
    bench = Bench()
    bench.submit()

    bench.refuse(Forbidden, "not with us", verb="create", kind="Pod")
    with capture_logs() as lines:
        bench.reconcile()
    refused = [line for line in lines if line["event"] == "refused"]
    assert [(line["seen"], line["by"]) for line in refused] == [("CREATE_FORBIDDEN", "not with us")]


def test_a_job_is_decided_once_whatever_has_to_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.companion_kinds = (
        CompanionKind(api_version="v1", kind="ConfigMap", resource="configmaps"),
    )
    companion = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "$(JOB)-data"}}
    bench.submit(companions=[companion], scheduling={"gangScheduler": "volcano"})
    decided: list[Decision] = []

    def note(*given: Any) -> Decision:
        decided.append(decide(*given))
        return decided[-1]

    monkeypatch.setattr("di_operator.reconcile.reconciler.decide", note)
    bench.reconcile()
    assert len(decided) == 1
    kinds = {kind for kind, _, _ in bench.api.objects}
    assert {"ConfigMap", "PodGroup", "Pod"} <= kinds


def test_a_reconciler_is_put_together_from_seven_parts_at_most() -> None:
    assert len(inspect.signature(Reconciler).parameters) <= 7
