"""From lists of the cluster's objects, as anybody may read them, to where jobs are tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from di_api.ownership import controller_uid
from di_operator.allocator.changes import Changes
from di_operator.allocator.forecast import Surroundings
from di_operator.allocator.policy import Policy
from di_operator.lifecycle.specs import read_spec

Object = Mapping[str, Any]


def look_at(
    *,
    jobs: Iterable[Object],
    nodes: Iterable[Object],
    pods: Iterable[Object],
    policy: Policy | None,
    now: datetime,
    kind_label: str | None = None,
) -> Surroundings:
    """Take a cluster as it is listed. Pods of jobs that are not among these take room as those of
    anybody else do: their jobs may be ones that may not be read.
    """
    known = list(jobs)
    uids = {job["metadata"]["uid"] for job in known}
    own: list[Object] = []
    others: list[Object] = []
    for pod in pods:
        (own if controller_uid(pod) in uids else others).append(pod)
    changes = Changes.all(jobs=known, departed=(), nodes=nodes, pods=own, others=others)
    return Surroundings(changes, policy=policy, now=now, read_spec=read_spec, kind_label=kind_label)
