"""Check for jobs that no operator handles or that make no progress, and for leftovers of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from di_api.conditions import condition_of
from di_api.field_error import mapping
from di_api.names import LABEL_JOB
from di_api.timestamps import parse_time
from di_api.wording import listed
from di_cli.diagnosis.facts import Facts, Object
from di_cli.diagnosis.finding import Finding, fault, unread, warning

UNSEEN: Final = timedelta(seconds=30)
"""Time within which an operator reconciles a new job, however busy it is."""
DELETED: Final = timedelta(minutes=10)
WAITING: Final = timedelta(hours=1)
SUSPENDED: Final = timedelta(days=7)
MANY: Final = 200
"""Number of finished jobs from which their missing deletion is reported: the operator keeps all of
them in memory.
"""
_PROBLEMS: Final = (
    *("ReconcileFailed", "SpecInvalid", "PodsRefused", "NotAllocatable", "ReportRejected", "Hung"),
    *("Idle", "NotifyTargetUnknown"),
)
_SHOWN: Final = 5


def check(facts: Facts) -> Iterator[Finding]:
    """Check the jobs of the namespace."""
    if not facts.jobs.is_good:
        if not facts.jobs.is_missing:
            yield unread(facts.jobs, f"the jobs of namespace {facts.namespace}")
        return
    jobs, now = facts.jobs.found, facts.now
    yield from _several(
        fault,
        "no operator has looked at",
        [_name(job) for job in jobs if not _phase(job) and _older(job, now, UNSEEN)],
        "see the topic operator; a release with watchNamespace looks at that namespace only",
    )
    yield from _several(
        fault,
        "being deleted for longer than ten minutes:",
        [_name(job) for job in jobs if _is_past(_deleted(job), now, DELETED)],
        "kubectl get dijob NAME -o yaml: a finalizer of others, or a pod that does not end",
    )
    for kind in _PROBLEMS:
        named = [_name(job) for job in jobs if condition_of(job, kind).get("status") == "True"]
        yield from _several(warning, f"{kind} is said of", named, "di why NAME")
    yield from _several(
        warning,
        "waiting for more than an hour:",
        [
            _name(job)
            for job in jobs
            if _phase(job) in ("Pending", "Starting")
            and not _suspended(job)
            and _is_past(_since(job), now, WAITING)
        ],
        "di why NAME",
    )
    yield from _several(
        warning,
        "suspended for more than a week:",
        [_name(job) for job in jobs if _suspended(job) and _is_past(_since(job), now, SUSPENDED)],
        "di resume NAME, or di delete NAME",
    )
    kept = [
        _name(job)
        for job in jobs
        if _phase(job) in ("Succeeded", "Failed")
        and mapping(job.get("spec")).get("ttlSecondsAfterFinished") is None
    ]
    if len(kept) > MANY:
        yield warning(
            f"{len(kept)} jobs are over and nothing deletes them",
            remedy="ttlSecondsAfterFinished in their manifests; di delete NAME",
        )
    yield from _several(
        warning,
        "pods of jobs that are gone:",
        _left_over(jobs, facts.pods.found),
        "kubectl delete pod NAME; the garbage collector of the cluster may be behind",
    )


def _several(
    severe: Callable[..., Finding], what: str, names: Sequence[str], remedy: str
) -> Iterator[Finding]:
    if not names:
        return
    yield severe(f"{what} {listed(names, _SHOWN)}", remedy=remedy.replace("NAME", names[0]))


def _left_over(jobs: Sequence[Object], pods: Sequence[Object]) -> list[str]:
    names = {_name(job) for job in jobs}
    return [
        _name(pod)
        for pod in pods
        if mapping(mapping(pod.get("metadata")).get("labels")).get(LABEL_JOB) not in names
        and _deleted(pod) is None
    ]


def _name(obj: Object) -> str:
    return str(mapping(obj.get("metadata")).get("name") or "")


def _phase(job: Object) -> str:
    return str(mapping(job.get("status")).get("phase") or "")


def _suspended(job: Object) -> bool:
    return mapping(job.get("spec")).get("suspend") is True


def _deleted(obj: Object) -> datetime | None:
    return parse_time(mapping(obj.get("metadata")).get("deletionTimestamp"))


def _older(job: Object, now: datetime, limit: timedelta) -> bool:
    return _is_past(parse_time(mapping(job.get("metadata")).get("creationTimestamp")), now, limit)


def _since(job: Object) -> datetime | None:
    """Return since when the job has been in its phase."""
    return parse_time(condition_of(job, _phase(job)).get("lastTransitionTime"))


def _is_past(time: datetime | None, now: datetime, limit: timedelta) -> bool:
    return time is not None and now - time > limit
