"""Whatever the objects are like there is an explanation, and no operator's reason is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.explain import Cause, Facts, explain, explain_refusal
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from tests.unit.api.explain.cluster import NOW, facts, job

_WORDS = st.sampled_from(
    [
        *("metadata", "status", "spec", "phase", "Failed", "Running", "Pending", "conditions"),
        *("type", "reason", "message", "True", "state", "terminated", "waiting", "exitCode"),
        *("containerStatuses", "restarts", "failures", "2026-03-01T11:00:00Z", "name", "Ready"),
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _WORDS | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_WORDS, below, max_size=4),
    max_leaves=20,
)
_OBJECTS = st.lists(st.dictionaries(_WORDS, _JSON, max_size=4), max_size=3)
# Of events alone, so that no phase has them as its reason.
_OF_EVENTS = {
    *("MemoryGrown", "SuccessCriteriaMet", "GroupFormed", "PodsCreated", "PodsDeleted"),
    *("ReplicasReplaced", "ElasticReplicasLost", "NameConflict", "AggregatorConfigMissing"),
    *(
        "NodeListsRestored",
        "MetadataRestored",
        "ServiceRestored",
        "PhaseNotConfirmed",
        "StandIn",
        "StandbyFailed",
    ),
    *("ScaleRefused", "NotScalable", "WorkloadRefused"),
}
_ENDS = {
    *("JobFailed", "PodFailurePolicy", "OOMLimit", "ReplicaBackoffLimit", "TaskBackoffLimit"),
    *("PendingTimeout", "NoProgress", "DeadlineExceeded", "InvalidSpec", "InvalidTemplate"),
}
_MESSAGES = {
    "JobPending": "task a waits for task b",
    "ContainerCreating": "its volumes have not been ready",
    "ContainerWaiting": "1 of 1 pod cannot run, x first: container c: CreateContainerError",
    "RefusedByScheduler": "0/1 nodes are available: 1 Insufficient cpu",
}


@given(
    job=st.none() | st.dictionaries(_WORDS, _JSON), pods=_OBJECTS, events=_OBJECTS, nodes=_OBJECTS
)
def test_an_explanation_never_fails(
    job: object, pods: object, events: object, nodes: object
) -> None:
    seen = Facts(name="x", namespace="n", now=NOW, job=job, pods=pods, events=events, nodes=nodes)  # type: ignore[arg-type]  # any shape
    assert explain(seen).summary


@pytest.mark.parametrize("reason", [each for each in Reason if each not in _OF_EVENTS])
def test_every_reason_of_a_phase_is_explained(reason: Reason) -> None:
    of_phase = reason.removeprefix("Job")
    phases = {"Starting", "Running", "Restarting", "Rescheduling", "Succeeded", "Pending"}
    phase = of_phase if of_phase in phases else "Failed" if reason in _ENDS else "Pending"
    message = _MESSAGES.get(reason, "exit code 1" if reason in _ENDS else "")
    suspended = {"suspend": True} if reason == "JobSuspended" else {}
    found = explain(facts(job(phase, reason, message, spec=suspended)))
    assert found.cause is not Cause.UNKNOWN


def test_problems_that_keep_a_job_from_going_on_are_explained() -> None:
    for problem in (Problem.HUNG, Problem.IDLE, Problem.MEMBER_SILENT, Problem.RECONCILE_FAILED):
        held = {"type": problem.value, "status": "True", "reason": problem.value, "message": "m"}
        found = explain(facts(job("Running", conditions=[held])))
        assert found.cause not in (Cause.UNKNOWN, Cause.RUNNING)


@pytest.mark.parametrize(
    ("code", "reason", "message", "cause"),
    [
        (500, "InternalError", 'failed calling webhook "x": timeout', Cause.WEBHOOK_DOWN),
        (403, "Forbidden", "exceeded quota: jobs", Cause.QUOTA),
        (403, "Forbidden", 'User "ann" cannot create resource', Cause.NOT_ALLOWED),
        (401, "Unauthorized", "Unauthorized", Cause.NOT_ALLOWED),
        (404, "NotFound", "the server could not find the requested resource", Cause.MISSING_KIND),
        (404, "NotFound", 'namespaces "rll" not found', Cause.WRONG_NAME),
        (404, "NotFound", 'dijobs "x" not found', Cause.WRONG_NAME),
        (409, "AlreadyExists", 'dijobs "x" already exists', Cause.NAME_TAKEN),
        (409, "Conflict", "the object has been modified", Cause.NAME_TAKEN),
        (422, "Invalid", "spec.tasks: is required", Cause.INVALID_SPEC),
        (400, "BadRequest", 'strict decoding error: unknown field "x"', Cause.INVALID_SPEC),
        (429, "TooManyRequests", "", Cause.API_SERVER_AWAY),
        (0, "Timeout", "no answer within 10 s", Cause.API_SERVER_AWAY),
        (418, "", "", Cause.UNKNOWN),
    ],
)
def test_refusals_of_the_api_server_are_explained(
    code: int, reason: str, message: str, cause: Cause
) -> None:
    found = explain_refusal("DIJob rl/x", code=code, reason=reason, message=message)
    assert found.cause is cause
    assert found.summary.startswith("DIJob rl/x: ")
    assert found.remedy


def test_a_refusal_names_each_field_once() -> None:
    causes = [("spec.tasks[0].replicas", "0: must be at least 1")]
    found = explain_refusal("x", code=422, reason="Invalid", message="long", causes=causes)
    assert [(each.label, each.text) for each in found.evidence] == [
        ("spec.tasks[0].replicas", "0: must be at least 1")
    ]
    webhook = 'admission webhook "v.di" denied the request: spec.tasks: is required'
    (told,) = explain_refusal("x", code=422, reason="Invalid", message=webhook).evidence
    assert told.text == "spec.tasks: is required"
