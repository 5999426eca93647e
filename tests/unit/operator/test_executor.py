"""Actions against the API server: order, bounds, and what counts as success."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from di_api.names import LABEL_JOB
from di_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES
from di_operator.lifecycle.vocabulary.actions import Action, Create, Delete, Patch, Reclaim, Replace
from di_operator.lifecycle.write_errors import (
    CreateForbidden,
    Fault,
    NameTaken,
    NodeListsRefused,
    QuotaExceeded,
    TemplateRefused,
)
from di_operator.process.concurrency import BURST, CONCURRENCY, CONNECTIONS, IN_COMPANY
from di_operator.process.controller import JobKey, Outdated
from di_operator.process.lease_state import NotLeading
from tests.unit.operator import virtual_time
from tests.unit.operator.executing import (
    ASKED,
    JOB,
    LABELS,
    Bench,
    Ready,
    create,
    delete,
    dry_run,
    pod,
    refuse,
)
from tests.unit.operator.fake_api import Object


def test_the_service_is_created_before_the_first_pod() -> None:
    bench = Bench()
    order: list[str] = []

    def note(verb: str, kind: str, name: str) -> None:
        assert kind == "Service" or ("Service", "ns", "di-a") in bench.api.objects
        order.append(kind)

    bench.api.before = note
    service = {"metadata": {"name": "di-a", "namespace": "ns"}}
    faults = bench.run(
        Create(resource=SERVICES, recipe=Ready(service)), *(create(pod(f"p{n}")) for n in range(4))
    )
    assert faults == []
    assert order == ["Service"] + ["Pod"] * 4
    assert len(bench.writes.observed) == 5
    assert bench.lease_checks == 2


def test_an_object_is_built_just_before_it_is_sent() -> None:
    bench = Bench()
    built: list[str] = []
    sent: list[str] = []

    @dataclass(frozen=True)
    class Noted:
        name: str

        def build(self) -> Object:
            built.append(self.name)
            return pod(self.name)

    def note(verb: str, kind: str, name: str) -> None:
        sent.append(name)
        assert len(built) - len(sent) < CONNECTIONS

    bench.api.before = note
    assert bench.run(*(Create(resource=PODS, recipe=Noted(f"p{n}")) for n in range(1000))) == []
    assert sorted(built) == sorted(sent) == sorted(f"p{n}" for n in range(1000))


def test_pods_are_created_together() -> None:
    bench = Bench()
    assert bench.run(*(create(pod(f"p{n}")) for n in range(100))) == []
    assert bench.api.calls["create", "Pod"] == 100
    assert bench.api.most_under_way > CONCURRENCY


def test_pods_are_created_a_few_at_a_time_while_another_job_writes() -> None:
    bench = Bench()
    with bench.writers.writing(JobKey("other", "a")):
        assert bench.run(*(create(pod(f"p{n}")) for n in range(100))) == []
    assert bench.api.calls["create", "Pod"] == 100
    assert bench.api.most_under_way == IN_COMPANY


def test_every_write_counts_for_the_concurrency_of_other_jobs() -> None:
    for actions in ([create(pod("p"))], [create(pod(f"p{n}")) for n in range(3)]):
        bench, other = Bench(), JobKey("other", "a")

        def note(*_: str, bench: Bench = bench, other: JobKey = other) -> None:
            assert bench.writers.has_company(other)
            assert not bench.writers.has_company(JOB)

        assert not bench.writers.has_company(other)
        bench.api.before = note
        assert bench.run(*actions) == []
        assert bench.writers.has_company(other)


def test_nothing_is_written_without_the_lease() -> None:
    bench = Bench()
    bench.leading = False
    with pytest.raises(NotLeading):
        bench.run(create(pod()))
    assert not bench.api.calls


def test_an_existing_pod_of_the_job_counts_as_created() -> None:
    bench = Bench()
    bench.api.put(PODS, "ns", pod())
    assert bench.run(create(pod())) == []
    assert bench.writes.observed == [("Pod", "a-work-0")]
    assert bench.writes.news == ["a-work-0"]
    assert bench.results["CreatePod", "ok"] == 1


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(pod() | {"status": {"phase": "Failed"}}, id="it has ended"),
        pytest.param(pod(deletionTimestamp="2026-01-01T00:00:00Z"), id="it is being deleted"),
        pytest.param(pod(owner="job-0"), id="it belongs to an earlier job of the name"),
    ],
)
def test_another_pod_of_the_name_has_to_go_first(found: Object) -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", found)
    with pytest.raises(Outdated):
        bench.run(create(pod()))
    assert bench.writes.observed == [("Pod", "a-work-0")]
    assert bench.api.objects["Pod", "ns", "a-work-0"] == stored


@pytest.mark.parametrize(
    "found", [{"metadata": {"name": "a-work-0"}}, pod(labels={LABEL_JOB: "a"})]
)
def test_a_foreign_pod_or_one_that_no_watch_shows_is_reported_and_kept(found: Object) -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", found)
    assert bench.run(create(pod())) == [NameTaken(resource=PODS, found=stored)]
    assert bench.writes.observed == []


def reclaimed(body: Object, **changes: Any) -> Reclaim:
    metadata = body["metadata"]
    values: Object = {
        "resource": PODS,
        "namespace": "ns",
        **{key: metadata[key] for key in ("name", "uid")},
        "labels": LABELS,
        "annotations": {"x": "1"},
    }
    return Reclaim(**{**values, **changes})


def test_removed_labels_and_annotations_are_put_back() -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", pod(labels={"theirs": "1"}))
    assert bench.run(reclaimed(stored)) == []
    now = bench.api.objects["Pod", "ns", "a-work-0"]["metadata"]
    assert now["labels"] == {"theirs": "1", **LABELS}
    assert now["annotations"] == {"x": "1"}
    assert now["ownerReferences"] == stored["metadata"]["ownerReferences"]
    assert bench.writes.observed == [("Pod", "a-work-0")]


def test_a_later_object_of_that_name_gets_no_labels() -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", pod(labels={}))
    with pytest.raises(Outdated):
        bench.run(reclaimed(stored, uid="another"))


def test_a_deleted_object_gets_no_labels_back() -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", pod())
    bench.api.objects.clear()
    assert bench.run(reclaimed(stored)) == []
    assert bench.writes.forgotten == [stored["metadata"]["uid"]]


def test_labels_that_the_cluster_removes_again_are_an_error() -> None:
    bench = Bench()
    stored = bench.api.put(PODS, "ns", pod(labels={}))
    merged = bench.api.patch

    async def strip(*given: Any, **options: Any) -> Object:
        answer = await merged(*given, **options)
        answer["metadata"]["labels"] = {}
        return answer

    bench.api.patch = strip  # type: ignore[method-assign]
    with pytest.raises(Outdated, match="does not keep"):
        bench.run(reclaimed(stored))


def test_a_name_that_is_free_at_the_second_read_is_decided_again() -> None:
    bench = Bench()
    bench.api.before = refuse(AlreadyExists)
    with pytest.raises(Outdated):
        bench.run(create(pod()))


@pytest.mark.parametrize(
    ("error", "message", "fault"),
    [
        (Invalid, "spec.x: bad", TemplateRefused(message="spec.x: bad")),
        (Forbidden, "exceeded quota: q", QuotaExceeded(message="exceeded quota: q")),
        (Forbidden, "denied by policy", CreateForbidden(message="denied by policy")),
    ],
)
def test_a_refused_create_becomes_a_fault_of_its_cause(
    error: type[ApiError], message: str, fault: Fault
) -> None:
    bench = Bench()
    bench.api.before = refuse(error, message)
    assert bench.run(create(pod())) == [fault]
    assert bench.results["CreatePod", "refused"] == 1


def test_invalid_node_lists_are_not_blamed_on_the_template() -> None:
    bench = Bench()
    bench.api.before = lambda verb, kind, name: Invalid(kind=kind, name=name, message="too long")
    fault = NodeListsRefused(message="too long")
    assert bench.run(Create(resource=CONFIGMAPS, recipe=Ready(pod()))) == [fault]
    assert bench.run(Replace(resource=CONFIGMAPS, recipe=Ready(pod()))) == [fault]


def test_a_thousand_refused_pods_cost_a_handful_of_requests() -> None:
    bench = Bench()
    bench.api.before = refuse(Forbidden, "exceeded quota: q")
    faults = bench.run(*(create(pod(f"p{n}")) for n in range(1000)))
    assert 1 <= len(faults) <= CONCURRENCY
    assert bench.api.calls["create", "Pod"] <= CONCURRENCY


def test_no_request_begins_once_the_actions_are_outdated() -> None:
    bench = Bench()
    made = bench.api.calls
    bench.is_wanted = lambda: made["create", "Pod"] < 100
    service = Delete(resource=SERVICES, namespace="ns", name="di-a", uid="u", resource_version="1")
    assert bench.run(*(create(pod(f"p{n}")) for n in range(1000)), service) == []
    assert 100 <= made["create", "Pod"] <= 100 + BURST
    assert made["delete", "Service"] == 0
    # What was under way is not lost sight of.
    assert len(bench.writes.observed) == made["create", "Pod"]


def test_pods_created_beside_a_refused_one_are_remembered() -> None:
    bench = Bench()

    def refuse_one(verb: str, kind: str, name: str) -> ApiError | None:
        return Invalid(kind=kind, name=name) if name == "p0" else None

    bench.api.before = refuse_one
    bench.run(*(create(pod(f"p{n}")) for n in range(4)))
    assert len(bench.writes.observed) == sum(kind == "Pod" for kind, _, _ in bench.api.objects) == 3


@pytest.mark.parametrize(
    ("error", "code", "is_of_server"),
    [
        (Forbidden, 403, False),
        (Invalid, 400, False),
        (Invalid, 422, False),
        (NotFound, 404, False),
        (ApiError, 418, False),
        (Throttled, 429, True),
        (Unavailable, 500, True),
    ],
)
def test_every_refused_create_is_reported_with_its_message(
    error: type[ApiError], code: int, is_of_server: bool
) -> None:
    bench = Bench()

    def answer(verb: str, kind: str, name: str) -> ApiError | None:
        return error(kind=kind, name=name, code=code, message="by a policy")

    bench.api.before = answer
    with suppress(ApiError):
        bench.run(create(pod()))
    assert bench.refused == [(JOB, "by a policy", is_of_server)]


@pytest.mark.parametrize(("error", "code"), [(Conflict, 409), (Gone, 410), (Unavailable, 0)])
def test_answers_that_judge_no_object_are_no_refusals(error: type[ApiError], code: int) -> None:
    bench = Bench()
    bench.api.before = lambda _verb, kind, name: error(kind=kind, name=name, code=code)
    with pytest.raises(ApiError):
        bench.run(create(pod()))
    assert bench.refused == []


def test_a_refused_delete_keeps_no_job_from_its_nodes() -> None:
    bench = Bench()
    bench.api.before = lambda _verb, kind, name: Forbidden(kind=kind, name=name, code=403)
    with pytest.raises(Forbidden):
        bench.run(delete(pod(resourceVersion="1", uid="u")))
    assert bench.refused == []


@pytest.mark.parametrize("keeps", [True, False])
def test_a_service_that_does_not_keep_its_selector_is_no_hot_loop(*, keeps: bool) -> None:
    bench = Bench()
    found = {"metadata": {"name": "di-a", "namespace": "ns"}, "spec": {"selector": {"a": "x"}}}
    created = bench.api.create(SERVICES, found, "ns")
    service = virtual_time.run(created)
    if not keeps:
        patched = bench.api.patch

        async def other_selector(*arguments: Any, **options: Any) -> Object:
            answer = await patched(*arguments, **options)
            return {**answer, "spec": {"selector": {"a": "by a webhook"}}}

        bench.api.patch = other_selector  # type: ignore[method-assign]  # as a webhook would
    action = Patch(
        resource=SERVICES,
        namespace="ns",
        name="di-a",
        uid=service["metadata"]["uid"],
        resource_version=service["metadata"]["resourceVersion"],
        patch={"spec": {"selector": {"a": "y", "b": None}}},
    )
    if keeps:
        assert bench.run(action) == []
    else:
        with pytest.raises(Outdated, match="does not keep"):
            bench.run(action)


def test_an_unreachable_api_server_is_not_a_fault_of_the_job() -> None:
    bench = Bench()
    bench.api.before = refuse(Unavailable)
    with pytest.raises(Unavailable):
        bench.run(*(create(pod(f"p{n}")) for n in range(20)))
    assert bench.api.under_way == 0
    assert bench.results["CreatePod", "error"] == bench.api.calls["create", "Pod"] <= CONCURRENCY


def test_deleting_a_missing_object_succeeds() -> None:
    bench = Bench()
    gone = Delete(resource=SERVICES, namespace="ns", name="di-a", uid="u", resource_version="1")
    assert bench.run(gone) == []
    assert bench.writes.forgotten == ["u"]


def test_a_later_object_of_that_name_is_never_deleted() -> None:
    bench = Bench()
    later = bench.api.put(PODS, "ns", pod())
    assert bench.run(delete(later, uid="earlier")) == []
    assert bench.api.objects
    assert bench.writes.forgotten == ["earlier"]
    assert bench.writes.observed == [("Pod", "a-work-0")]


def test_a_delete_of_a_changed_pod_is_decided_again() -> None:
    bench = Bench()
    found = bench.api.put(PODS, "ns", pod())
    with pytest.raises(Outdated):
        bench.run(delete(found, resource_version="0"))
    assert bench.api.objects
    assert bench.writes.observed == [("Pod", "a-work-0")]


def test_each_object_is_deleted_as_its_resource_and_hidden_at_once() -> None:
    bench = Bench()
    names = {PODS: "a-work-0", SERVICES: "di-a", DIJOBS: "a"}
    stored = {
        kind: bench.api.put(kind, "ns", {"metadata": {"name": name}})
        for kind, name in names.items()
    }
    assert bench.run(*(delete(body, resource=kind) for kind, body in stored.items())) == []
    assert bench.writes.forgotten == [body["metadata"]["uid"] for body in stored.values()]
    assert bench.api.objects == {}


@pytest.mark.parametrize(
    ("grace", "finalizers", "is_gone"),
    [(30, [], False), (0, ["foregroundDeletion"], False), (0, [], True)],
    ids=["a running pod", "a finalizer", "a succeeded pod"],
)
def test_a_pod_without_a_grace_period_is_hidden_at_its_deletion(
    monkeypatch: pytest.MonkeyPatch, *, grace: int, finalizers: list[str], is_gone: bool
) -> None:
    bench = Bench()
    found = bench.api.put(PODS, "ns", pod(finalizers=finalizers))
    response = pod(
        deletionTimestamp="2026-01-01T00:00:00Z",
        deletionGracePeriodSeconds=grace,
        finalizers=finalizers,
    )
    monkeypatch.setattr(bench.api, "delete_found", lambda *_: response)
    assert bench.run(delete(found)) == []
    assert bench.writes.forgotten == [found["metadata"]["uid"]] * is_gone
    assert len(bench.writes.observed) == (not is_gone)


def test_actions_are_counted_under_the_names_that_dashboards_know() -> None:
    body = pod()
    identity: Object = {"namespace": "ns", "name": "a", "uid": "u", "resource_version": "1"}
    actions: tuple[Action, ...] = (
        Create(resource=SERVICES, recipe=Ready(body)),
        Create(resource=CONFIGMAPS, recipe=Ready(body)),
        Replace(resource=CONFIGMAPS, recipe=Ready(body)),
        Create(resource=PODS, recipe=Ready(body)),
        reclaimed({"metadata": {"name": "a", "uid": "u"}}),
        *(Delete(resource=each, **identity) for each in (PODS, SERVICES, CONFIGMAPS, DIJOBS)),
    )
    assert [action.label for action in actions] == [
        *("CreateService", "CreateConfigMap", "ReplaceConfigMap", "CreatePod", "Reclaim"),
        *("DeletePod", "DeleteService", "DeleteConfigMap", "DeleteJob"),
    ]


def test_a_conflict_other_than_a_name_clash_is_retried() -> None:
    bench = Bench()
    bench.api.before = refuse(Conflict, "Operation cannot be fulfilled on resourcequotas")
    with pytest.raises(Conflict):
        bench.run(create(pod()))


def test_a_dry_run_stores_nothing_and_a_refused_one_counts_as_a_refusal() -> None:
    bench = Bench()
    assert bench.run(dry_run(pod())) == []
    assert (bench.api.dry_runs, bench.api.objects) == (["a-work-0"], {})
    assert bench.passed == [ASKED]
    bench.api.before = refuse(Forbidden, "no PriorityClass with name fast was found")
    assert bench.run(dry_run(pod())) == [
        CreateForbidden(message="no PriorityClass with name fast was found")
    ]
    assert (len(bench.refused), bench.dry_runs) == (1, 1)
    assert bench.passed == [ASKED]


def test_a_webhook_that_denies_a_dry_run_without_a_code_refuses_the_pod() -> None:
    bench = Bench()

    def denied(verb: str, kind: str, name: str) -> ApiError:
        message = 'admission webhook "x" denied the request: no team label'
        return Invalid(kind=kind, name=name, code=400, message=message)

    bench.api.before = denied
    (fault,) = bench.run(dry_run(pod()))
    assert "no team label" in fault.message
    assert len(bench.refused) == 1


def test_a_dry_run_that_is_not_judged_counts_as_no_refusal() -> None:
    bench = Bench()
    bench.api.put(PODS, "ns", pod(owner="other"))
    # The pod's name is taken, which the create itself looks into.
    assert bench.run(dry_run(pod())) == []

    def unsupported(verb: str, kind: str, name: str) -> ApiError:
        return Invalid(
            kind=kind, name=name, code=400, reason="BadRequest", message="supports no dry run"
        )

    bench.api.before = unsupported
    assert bench.run(dry_run(pod("p1"))) == []
    bench.api.before = refuse(Forbidden, "exceeded quota: gpus")
    assert bench.run(dry_run(pod("p1"))) == []
    assert bench.refused == []
