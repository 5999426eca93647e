"""Claims on a folder of the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.kubectl import Kubectl


@contextmanager
def claim_of(kubectl: Kubectl, namespace: str, name: str, size: str = "10Mi") -> Iterator[str]:
    """A claim of the namespace, on a folder of the node."""
    resources, modes = {"storage": size}, ["ReadWriteOnce"]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": resources,
            "accessModes": modes,
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": f"/var/tmp/{namespace}", "type": "DirectoryOrCreate"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "storageClassName": "",
            "accessModes": modes,
            "resources": {"requests": resources},
        },
    }
    kubectl.apply(volume)
    try:
        kubectl.apply(claim)
        yield name
    finally:
        kubectl("delete", "persistentvolume", namespace, "--wait=false")
