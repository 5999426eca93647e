"""Permission to use a job, and the pods that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from di_api.ownership import controlling_job
from di_server.model.pod import addresses_of, has_ended
from di_server.model.references import JobRef
from di_server.problems import NotAllowed


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to use one job; with a UID only that job, not a later one of the same name."""

    ref: JobRef
    job_uid: str | None = None
    pod: str | None = None
    """Name of the pod that has it, None for other callers."""
    user: str = ""
    """Name of the user who has it, if the caller is not a pod and authentication is enabled."""
    caller: str = ""
    """UID of the pod or user, for a user without a UID the name; empty: unknown."""

    @property
    def who(self) -> str:
        """Return the caller for messages, for a pod with more than its account; empty: anyone."""
        return f"pod {self.pod}" if self.pod else self.user

    def check(self, job: Mapping[str, Any]) -> None:
        """Refuse any job except the one of the grant.

        Raises:
            NotAllowed: the name belongs to a later job now.
        """
        if self.job_uid not in (None, job["metadata"]["uid"]):
            raise NotAllowed(f"the calling pod does not belong to this job {self.ref.id}")


def grants_at(pods: Iterable[Mapping[str, Any]], ip: str) -> list[Grant]:
    """Return the grants of the pods that have the address for themselves."""
    grants = (
        grant_of(pod)
        for pod in pods
        # All pods on the host network share the node's address, and the address of a finished pod
        # can be reused.
        if not pod["spec"].get("hostNetwork") and not has_ended(pod)
        if ip in addresses_of(pod)
    )
    return [grant for grant in grants if grant is not None]


def grant_of(pod: Mapping[str, Any]) -> Grant | None:
    """Return the grant for the job that controls a pod."""
    owner = controlling_job(pod)
    if owner is None:
        return None
    metadata = pod["metadata"]
    return Grant(
        JobRef(metadata["namespace"], owner["name"]),
        owner["uid"],
        metadata["name"],
        caller=metadata["uid"],
    )
