"""What keeps a job from having pods, and the cause that is found."""

from __future__ import annotations

import pytest

from di_api.explain import Cause, Facts
from tests.unit.api.explain.cluster import (
    POD,
    assert_explained,
    condition,
    facts,
    job,
    pod,
)

FORBIDDEN = f'pods "{POD}" is forbidden: '
WEBHOOK = (
    'Internal error occurred: failed calling webhook "pods.example.org": failed to call webhook: '
    'Post "https://hook.example.svc:443/": no endpoints available for service "hook"'
)

CASES: dict[str, tuple[Facts, Cause]] = {
    "quota": (
        facts(
            job(
                "Pending",
                "QuotaExceeded",
                f"{FORBIDDEN}exceeded quota: small, requested: pods=1, used: pods=4",
            )
        ),
        Cause.QUOTA,
    ),
    "wrong name": (facts(None, jobs=["cartpole-2", "grpo"]), Cause.WRONG_NAME),
    "service account": (
        facts(
            job(
                "Pending",
                "CreateForbidden",
                f"{FORBIDDEN}error looking up service account rl/trainer: serviceaccount "
                '"trainer" not found',
            )
        ),
        Cause.SERVICE_ACCOUNT,
    ),
    "pods that are too privileged": (
        facts(
            job(
                "Pending", "CreateForbidden", f'{FORBIDDEN}violates PodSecurity "restricted:latest"'
            )
        ),
        Cause.REFUSED,
    ),
    "another task is waited for": (
        facts(
            job("Pending", "JobPending", "task collector waits for task learner"),
            pod(phase="Running", node="gpu-1"),
        ),
        Cause.DEPENDS_ON,
    ),
    "queue": (facts(job("Pending", "WaitingForNodes", "waiting for the allocator")), Cause.QUEUE),
    "quota of the allocator": (
        facts(
            job(
                "Pending",
                "QueueQuotaExceeded",
                "the quota of namespace rl: it has 4 of its 4 nvidia.com/gpu, and the job needs 1",
            )
        ),
        Cause.QUOTA,
    ),
    "a queue of Kueue": (
        facts(
            job(
                "Pending",
                "JobQueued",
                metadata={"annotations": {"diengine/suspended-by": "queue"}},
                spec={"suspend": True},
                conditions=[condition("Queued", value=True, reason="WaitingForQuota")],
            )
        ),
        Cause.QUEUE,
    ),
    "a user has suspended what was queued": (
        facts(
            job(
                "Pending",
                "JobSuspended",
                spec={"suspend": True},
                conditions=[condition("Queued", value=True)],
            )
        ),
        Cause.SUSPENDED,
    ),
    "another cluster runs it": (
        facts(
            job(
                "Running",
                metadata={"annotations": {"diengine/suspended-by": "queue"}},
                spec={"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"},
            )
        ),
        Cause.ELSEWHERE,
    ),
    "it waits for another cluster": (
        facts(
            job(
                "Pending",
                "JobQueued",
                metadata={"annotations": {"diengine/suspended-by": "queue"}},
                spec={"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"},
                conditions=[condition("Queued", value=True, reason="Waiting")],
            )
        ),
        Cause.QUEUE,
    ),
    "a queue has admitted it": (
        facts(
            job("Running", conditions=[condition("Queued", value=False, reason="Admitted")]),
            pod(phase="Running", node="gpu-1"),
        ),
        Cause.RUNNING,
    ),
    "webhook of somebody else's is down": (
        facts(job("Pending", "CreateForbidden", WEBHOOK)),
        Cause.WEBHOOK_DOWN,
    ),
    "suspended": (facts(job("Pending", "JobSuspended", spec={"suspend": True})), Cause.SUSPENDED),
    "a spec that breaks the rules": (
        facts(job("Failed", "InvalidSpec", "spec.tasks: is required")),
        Cause.INVALID_SPEC,
    ),
    "a spec that cannot be read any more": (
        facts(
            job(
                "Running",
                conditions=[condition("SpecInvalid", value=True, reason="Unreadable", message="x")],
            )
        ),
        Cause.INVALID_SPEC,
    ),
    "a template that is refused": (
        facts(job("Failed", "InvalidTemplate", 'Pod "x" is invalid: spec.containers: Required')),
        Cause.INVALID_SPEC,
    ),
    "a name that is taken": (
        facts(job("Failed", "PodNameConflict", f"pod {POD} exists already")),
        Cause.NAME_TAKEN,
    ),
}


@pytest.mark.parametrize(("seen", "cause"), CASES.values(), ids=CASES)
def test_the_cause_is_found(seen: Facts, cause: Cause) -> None:
    assert_explained(seen, cause)
