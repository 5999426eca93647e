"""Search fields of jobs, computed at each change, so that no page reads ten thousand jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.field_error import mapping
from di_api.names import LABEL_OWNER, LABEL_QUEUE
from di_api.phase import has_finished
from di_cli.views.jobs import key_of
from di_kube.packed import unpacked

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The search fields of a job.

    Attributes:
        owner: its label `owner`; empty if it has none.
        queue: its queue of Kueue; empty if it has none.
        words: its name, namespace and labels, in lower case.
        kept: the job as it is cached.
    """

    namespace: str
    name: str
    phase: str
    has_finished: bool
    created: str
    labels: frozenset[tuple[str, str]]
    owner: str
    queue: str
    words: str
    kept: Object

    @property
    def job(self) -> Object:
        """Return the job, parsed."""
        return unpacked(self.kept)


def entry_of(job: Object) -> Entry:
    """Return the search fields of a job of any shape."""
    metadata = mapping(job.get("metadata"))
    namespace, name = key_of(job)
    labels = {str(k): str(v) for k, v in mapping(metadata.get("labels")).items()}
    words = " ".join([name, namespace, *(f"{k}={v}" for k, v in labels.items())])
    return Entry(
        namespace=namespace,
        name=name,
        phase=str(mapping(job.get("status")).get("phase") or "Pending"),
        has_finished=has_finished(job),
        created=str(metadata.get("creationTimestamp") or ""),
        labels=frozenset(labels.items()),
        owner=labels.get(LABEL_OWNER, ""),
        queue=labels.get(LABEL_QUEUE, ""),
        words=words.lower(),
        kept=job,
    )
