"""Running pods are told of the authorities to know di-server by, whenever these change."""

from __future__ import annotations

from itertools import islice
from typing import Final

from di_api.names import ANNOTATION_SERVER_CA
from di_kube.resources import PODS
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.policy import Policy, Repair
from di_operator.lifecycle.vocabulary.actions import Reclaim
from di_operator.lifecycle.vocabulary.decision import Settings

AT_ONCE: Final = 512
"""Pods told in one step, about a second: a failure seen meanwhile is not to wait for more."""


def repair_annotations(snapshot: Snapshot, settings: Settings) -> Repair:
    """What brings the annotation of pods up to date that were made with one.

    Others, of an earlier version, have no file that the kubelet would make of it. All pods of a
    job whose spec cannot be read count as surplus, and go on for as long as that.
    """
    server_ca = settings.server_ca
    if not server_ca:
        return Repair()
    pods = (*snapshot.held.values(), *snapshot.standbys, *snapshot.surplus)
    labels, annotations = dict[str, str](), {ANNOTATION_SERVER_CA: server_ca}
    actions = tuple(
        Reclaim(
            resource=PODS,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            labels=labels,
            annotations=annotations,
        )
        for pod in islice((pod for pod in pods if _wants(pod, server_ca)), AT_ONCE)
    )
    return Repair(actions=actions)


def _wants(pod: Pod, server_ca: str) -> bool:
    told = (pod.raw["metadata"].get("annotations") or {}).get(ANNOTATION_SERVER_CA, server_ca)
    return bool(told != server_ca) and not (pod.terminating or pod.is_finished)


SERVER_CA: Final = Policy(repair=repair_annotations)
