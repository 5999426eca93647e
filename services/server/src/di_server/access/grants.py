"""Permission to use a job, and which pods have it."""

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
    """Name of the pod that has it, None if it is nobody's pod."""
    user: str = ""
    """Name of the user who has it, if it is nobody's pod and the server asks who calls."""
    caller: str = ""
    """UID of the pod or the user who has it, for a user without one the name; empty: unknown."""

    @property
    def who(self) -> str:
        """For people: a pod says more than its account; empty: anybody."""
        return f"pod {self.pod}" if self.pod else self.user

    def check(self, job: Mapping[str, Any]) -> None:
        """Refuse another job than the one the grant was made for.

        Raises:
            NotAllowed: the name is a later job's by now.
        """
        if self.job_uid not in (None, job["metadata"]["uid"]):
            raise NotAllowed(f"the calling pod does not belong to this job {self.ref.id}")


def grants_at(pods: Iterable[Mapping[str, Any]], ip: str) -> list[Grant]:
    """The jobs of the pods that have the address for themselves."""
    grants = (
        grant_of(pod)
        for pod in pods
        # Everything on a node shares its address, so that tells nothing; and an ended pod's
        # address may be another's by now.
        if not pod["spec"].get("hostNetwork") and not has_ended(pod)
        if ip in addresses_of(pod)
    )
    return [grant for grant in grants if grant is not None]


def grant_of(pod: Mapping[str, Any]) -> Grant | None:
    """The job that controls a pod."""
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
