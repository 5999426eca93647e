"""What jobs are found by, read once for each change: of ten thousand nobody looks at all of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import LABEL_QUEUE

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name."""

LABEL_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a job is found by.

    Attributes:
        owner: its label `owner`; empty if it has none.
        queue: the queue of Kueue that it is in; likewise.
        words: its name, namespace and labels, in small letters.
    """

    namespace: str
    name: str
    phase: str
    created: str
    labels: frozenset[tuple[str, str]]
    owner: str
    queue: str
    words: str
    job: Object


def entry_of(job: Object) -> Entry:
    """Read it of a job of any shape."""
    metadata = mapping(job.get("metadata"))
    namespace, name = key_of(job)
    labels = {str(k): str(v) for k, v in mapping(metadata.get("labels")).items()}
    words = " ".join([name, namespace, *(f"{k}={v}" for k, v in labels.items())])
    return Entry(
        namespace=namespace,
        name=name,
        phase=str(mapping(job.get("status")).get("phase") or "Pending"),
        created=str(metadata.get("creationTimestamp") or ""),
        labels=frozenset(labels.items()),
        owner=labels.get(LABEL_OWNER, ""),
        queue=labels.get(LABEL_QUEUE, ""),
        words=words.lower(),
        job=job,
    )


def key_of(obj: Object) -> Key:
    """The namespace and name of an object."""
    metadata = mapping(obj.get("metadata"))
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
