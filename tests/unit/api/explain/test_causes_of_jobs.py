"""The cause that is found where it is of the whole job, or keeps it from having pods."""

from __future__ import annotations

import re

import pytest

from di_api.explain import Cause, Facts, explain
from tests.unit.api.explain.cluster import (
    FULL,
    POD,
    condition,
    facts,
    job,
    pod,
    seen,
    time,
    unscheduled,
)

FORBIDDEN = f'pods "{POD}" is forbidden: '
WEBHOOK = (
    'Internal error occurred: failed calling webhook "pods.example.org": failed to call webhook: '
    'Post "https://hook.example.svc:443/": no endpoints available for service "hook"'
)
NO_ACCOUNT = 'error looking up service account rl/trainer: serviceaccount "trainer" not found'
QUOTA = "the quota of namespace rl: it has 4 of its 4 nvidia.com/gpu, and the job needs 1"
BY_QUEUE = {"annotations": {"diengine/suspended-by": "queue"}}
ELSEWHERE = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}
RUNS = pod(ready=True, phase="Running", node="gpu-1")
RESTART = "a restart of the job was asked for, 3 pods"

CASES: dict[Cause, list[Facts]] = {
    Cause.DEADLINE: [seen("Failed", "DeadlineExceeded", "active for longer than 60 seconds")],
    Cause.HUNG: [
        seen("Running", "", "", RUNS, conditions=[condition("Hung", value=True, message="step 1")]),
        seen("Failed", "NoProgress", "step 12 for 60 seconds; all 3 restarts are used"),
    ],
    Cause.IDLE: [
        seen(
            "Running",
            "",
            "",
            RUNS,
            conditions=[condition("Idle", value=True, reason="LearnersWait", message="waited")],
        ),
    ],
    Cause.MEMBER_SILENT: [
        seen(
            "Running",
            "",
            "",
            RUNS,
            conditions=[condition("MemberSilent", value=True, message=f"no heartbeat from {POD}")],
        ),
    ],
    Cause.BEING_DELETED: [seen("Running", metadata={"deletionTimestamp": time(59)})],
    Cause.OPERATOR_SILENT: [facts(job())],
    Cause.STARTING: [facts(job(metadata={"creationTimestamp": "2026-03-01T11:59:55Z"}))],
    Cause.OPERATOR_FAILED: [
        seen("Running", conditions=[condition("ReconcileFailed", value=True, message="KeyError")])
    ],
    Cause.RESTARTED: [seen("Restarting", "RestartRequested", RESTART, RUNS)],
    Cause.SUCCEEDED: [seen("Succeeded")],
    Cause.RUNNING: [
        seen("Running", "", "", RUNS),
        seen("Running", "", "", RUNS, conditions=[condition("Queued", value=False)]),
    ],
    Cause.QUOTA: [
        seen("Pending", "QuotaExceeded", f"{FORBIDDEN}exceeded quota: small, used: pods=4"),
        seen("Pending", "QueueQuotaExceeded", QUOTA),
    ],
    Cause.WRONG_NAME: [facts(None, jobs=["cartpole-2", "grpo"])],
    Cause.SERVICE_ACCOUNT: [seen("Pending", "CreateForbidden", FORBIDDEN + NO_ACCOUNT)],
    Cause.REFUSED: [
        seen("Pending", "CreateForbidden", f'{FORBIDDEN}violates PodSecurity "a:b"'),
        seen(
            "Pending",
            "JobSuspended",
            spec={"suspend": True},
            conditions=[condition("PodsRefused", value=True, reason="CreateForbidden")],
        ),
    ],
    Cause.DEPENDS_ON: [
        seen("Pending", "JobPending", "task collector waits for task learner", RUNS)
    ],
    Cause.QUEUE: [
        seen("Pending", "WaitingForNodes", "waiting for the allocator"),
        seen("Starting", "WaitingForNodes", FULL, pod(conditions=[unscheduled(FULL)])),
        *(
            seen("Pending", "JobQueued", metadata=BY_QUEUE, spec=spec, conditions=[queued])
            for queued in [condition("Queued", value=True, reason="WaitingForQuota")]
            for spec in ({"suspend": True}, ELSEWHERE)
        ),
    ],
    Cause.SUSPENDED: [
        seen("Pending", "JobSuspended", spec={"suspend": True}, conditions=conditions)
        for conditions in ([], [condition("Queued", value=True)])
    ],
    Cause.ELSEWHERE: [seen("Running", metadata=BY_QUEUE, spec=ELSEWHERE)],
    Cause.WEBHOOK_DOWN: [seen("Pending", "CreateForbidden", WEBHOOK)],
    Cause.INVALID_SPEC: [
        seen("Failed", "InvalidSpec", "spec.tasks: is required"),
        seen("Failed", "InvalidTemplate", 'Pod "x" is invalid: spec.containers: Required'),
        seen("Running", conditions=[condition("SpecInvalid", value=True, reason="Unreadable")]),
        seen(
            "Pending",
            "JobQueued",
            metadata=BY_QUEUE,
            spec={"suspend": True},
            conditions=[
                condition("Queued", value=True, reason="WaitingForQuota"),
                condition("PodsRefused", value=True, reason="InvalidTemplate"),
            ],
        ),
    ],
    Cause.NAME_TAKEN: [seen("Failed", "PodNameConflict", f"pod {POD} exists already")],
}


@pytest.mark.proves("lifecycle.md#idle-jobs")
@pytest.mark.parametrize(
    ("reason", "is_by_policy"), [("SuspendedByPolicy", 1), ("LearnersWait", 0)]
)
def test_a_suspension_by_the_idle_policy_is_named(reason: str, is_by_policy: bool) -> None:
    waited = "the learners have waited for 80 percent of the time"
    told = [
        condition("Suspended", value=True, at=50),
        condition("Idle", value=True, reason=reason, message=waited),
    ]
    found = explain(seen("Pending", "JobSuspended", spec={"suspend": True}, conditions=told))
    assert found.cause is Cause.SUSPENDED
    assert (f"by its idlePolicy: {waited}" in found.summary) is bool(is_by_policy)
    assert found.remedy.endswith("di resume cartpole")


@pytest.mark.parametrize(
    ("found", "cause"), [(each, cause) for cause, cases in CASES.items() for each in cases]
)
def test_the_cause_of_a_job_is_found(found: Facts, cause: Cause) -> None:
    explanation = explain(found)
    assert explanation.cause is cause
    # A scheduler's message may have braces: "untolerated taint {gpu: x}".
    assert not re.search(r"{\w*}", explanation.summary + explanation.remedy)
    assert "\n" not in explanation.summary
