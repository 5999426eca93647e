"""Updates the certificate authorities for di-server on running pods."""

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
"""Pods updated in one step, about a second: a failure in the meantime must not wait longer."""


def repair_annotations(snapshot: Snapshot, settings: Settings) -> Repair:
    """Return the patches for pods whose annotation of authorities is outdated.

    Pods of an earlier version have no annotation and no file that the kubelet makes from it. For a
    job whose spec cannot be read, all pods count as surplus and still run.
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
