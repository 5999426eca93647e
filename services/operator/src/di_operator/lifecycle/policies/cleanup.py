"""Clean-up after the end of a job: pods by cleanPodPolicy, Services and node lists always."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from di_api.spec import CleanPodPolicy
from di_kube.resources import CONFIGMAPS, SERVICES
from di_operator.lifecycle.observed.pods import Pod, is_marked_standby
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import count_of
from di_operator.lifecycle.policies.deletion import delete, delete_pod, is_terminating
from di_operator.lifecycle.policies.drain import own_grace
from di_operator.lifecycle.vocabulary.actions import Action
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason


def clean_up(snapshot: Snapshot) -> Decision:
    """Return the deletes for the objects of a finished job, which itself stays unmodified.

    This is a reconcile of its own, after the one that wrote the final phase: if pods were deleted
    first and the status write then failed, the job would start again.
    """
    policy = _policy(snapshot)
    pods = [pod for pod in _own_pods(snapshot) if _goes(pod, policy)]
    # Pods that drain have no one left to serve.
    deletions: list[Action] = [
        delete_pod(pod, grace_period_seconds=own_grace(pod))
        for pod in (*pods, *_namesakes(snapshot))
    ]
    services = (*snapshot.services, *snapshot.old_services)
    configmaps = (snapshot.configmap, *snapshot.old_configmaps)
    deletions += [delete(SERVICES, s) for s in services if not is_terminating(s)]
    deletions += [delete(CONFIGMAPS, c) for c in configmaps if c and not is_terminating(c)]
    events = (
        JobEvent(
            reason=Reason.PODS_DELETED,
            message=f"deleted {count_of(len(pods), 'pod')} (cleanPodPolicy {policy.value})",
        ),
    )
    return Decision(actions=tuple(deletions), events=events if pods else ())


def _own_pods(snapshot: Snapshot) -> Iterator[Pod]:
    # Without a spec there are no slots, and every pod of the job is surplus.
    yield from snapshot.surplus
    yield from (pod for pod in snapshot.held.values() if not pod.terminating)


def _namesakes(snapshot: Snapshot) -> Iterator[Pod]:
    return (pod for pod in snapshot.predecessors if not pod.terminating)


def _goes(pod: Pod, policy: CleanPodPolicy) -> bool:
    match policy:
        case CleanPodPolicy.ALL:
            return True
        case CleanPodPolicy.RUNNING:
            return not pod.has_ended  # A pod whose containers have ended is kept for its logs.
        case CleanPodPolicy.NONE:
            # A standby pod will not be promoted any more.
            return is_marked_standby(pod) and not pod.has_ended


def _policy(snapshot: Snapshot) -> CleanPodPolicy:
    # Read raw: an invalid spec is one of the ways to get here.
    spec = snapshot.job.get("spec")
    value = spec.get("cleanPodPolicy") if isinstance(spec, Mapping) else None
    known = (policy for policy in CleanPodPolicy if policy.value == value)
    return next(known, CleanPodPolicy.RUNNING)
