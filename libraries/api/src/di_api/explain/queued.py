"""Explanations of jobs that wait in a queue of Kueue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from di_api.explain.cause import Cause
from di_api.explain.evidence import operator_says
from di_api.explain.explanation import Evidence, Explanation
from di_api.explain.job import Job
from di_api.field_error import mapping
from di_api.names import LABEL_QUEUE
from di_api.ownership import is_dispatched
from di_api.phase import Phase
from di_api.queued import is_suspended_by_queue, queue_of

_ITS_TURN: Final = "nothing: it is admitted by itself when others give back what is missing"
# By reasons of Kueue (https://kueue.sigs.k8s.io/docs/concepts/workload) and of the operator.
_REMEDIES: Final[Mapping[str, str]] = {
    "Pending": _ITS_TURN,
    "PendingEvaluation": "nothing: Kueue looks at it next",
    "WaitingForQuota": _ITS_TURN,
    "WaitingForPreemptedWorkloads": "nothing: what makes room for it ends",
    "WaitingForPodsReady": "nothing: Kueue waits for the pods of jobs before it",
    "ExceedsMaxQuota": "ask for less (replicas, resources.requests), or have the quota raised: it "
    "is more than the queue may ever have",
    "NoMatchingFlavor": "compare nodeSelector, affinity and tolerations with kubectl get "
    "resourceflavors -o yaml",
    "TopologyNotSupported": "create the job again with another scheduling.topology (Kueue keeps "
    "two groups of pods together, of which one is a single pod), or without a queue",
    "TopologyPlacementFailed": "ask for a wider domain, or wait until one has room",
    "Misconfigured": "kubectl get localqueues -n {namespace}: label the job with one that is "
    "there, or have it created; the job is taken up by itself then",
    "Suspended": "ask who runs the queue: it takes no jobs now (stopPolicy)",
    "QueueUnavailable": "tell who runs the cluster that Kueue is not installed, or take the label "
    f"{LABEL_QUEUE} off and resume the job",
    "Evicted": "nothing: its pods have their grace period to end, then it is queued again",
}
_OTHERWISE: Final = "kubectl describe workloads -n {namespace}, kubectl get localqueues -n "


def queued(job: Job) -> Explanation | None:
    """Explain that a job waits in a queue, for what, and what to do."""
    found = job.holds("Queued")
    is_over = job.phase is not None and job.phase.is_finished
    body = mapping(job.facts.job)
    is_held = job.spec.get("suspend") is True and not is_suspended_by_queue(body)
    if found is None or is_over or is_held:
        return None
    queue = queue_of(body) or "that it named"
    remedy = _REMEDIES.get(found.reason, f"{_OTHERWISE}{{namespace}}")
    return Explanation(
        cause=Cause.QUEUE,
        summary=f"{job.facts.name} waits in queue {queue}{': ' if found.message else ''}"
        f"{found.message}",
        evidence=(
            Evidence(label="Kueue", text=found.reason, at=found.since),
            *operator_says(job),
        ),
        remedy=remedy.format_map({"namespace": job.facts.namespace}),
    )


def elsewhere(job: Job) -> Explanation | None:
    """Explain that another cluster runs the job through MultiKueue: its pods are there."""
    body = mapping(job.facts.job)
    if not is_dispatched(body) or job.phase is None or job.phase is Phase.PENDING:
        return None
    name, namespace = job.facts.name, job.facts.namespace
    return Explanation(
        cause=Cause.ELSEWHERE,
        summary=f"{name} is {job.phase.value} in another cluster, where MultiKueue has sent it",
        evidence=operator_says(job),
        remedy=f"kubectl get workload {name}-core -n {namespace} -o yaml has its name "
        f"(status.clusterName): ask there, di why {name} --context NAME",
    )
