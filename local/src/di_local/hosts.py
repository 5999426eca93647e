"""The hosts file of a run: names of its pods, for programs that receive names while they run.

The environment of a program has addresses in place of names (di_local.addresses). di-server
responds with names, such as those of a coordinator's collectors. Python programs resolve them from
this file (di_local.inside), as from a cluster's DNS, as soon as the pod is created.
"""

from __future__ import annotations

from pathlib import Path

from di_api.names import LABEL_REPLICA_TYPE
from di_api.spec.coordinated import Role
from di_kube.resources import PODS
from di_local.addresses import Network, NoAddress
from di_local.api.objects import Change, Object, Objects

FILE = Path("names/hosts")
"""In a separate directory, which containers can mount."""


class Hosts:
    """Keeps the file up to date: a line for each pod, with its address and its name without the
    common suffix (`svc.cluster.local`).

    Args:
        path: of the file; it is replaced, never modified.
    """

    def __init__(self, objects: Objects, network: Network, path: Path) -> None:
        self._objects = objects
        self._network = network
        self._path = path
        path.parent.mkdir(exist_ok=True)
        self._write()
        objects.subscribe(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.plural != PODS.plural or (change.before and change.after):
            return
        if change.after is None and change.before is not None and _never_again(change.before):
            self._network.forget(change.before["metadata"]["name"])
        self._write()

    def _write(self) -> None:
        new = self._path.with_suffix(".new")
        new.write_text("".join(map(self._line, self._objects.list(PODS))))
        new.replace(self._path)

    def _line(self, pod: Object) -> str:
        metadata, subdomain = pod["metadata"], pod["spec"].get("subdomain")
        parts = (metadata["name"], *([subdomain] if subdomain else []), metadata["namespace"])
        try:
            return f"{self._network.address(metadata['name'])} {'.'.join(parts)}\n"
        except NoAddress:
            # Such a pod does not start either, and reports why.
            return ""


def _never_again(pod: Object) -> bool:
    """Return whether a pod's name is never reused, as for replicas that a coordinator requests."""
    role = (pod["metadata"].get("labels") or {}).get(LABEL_REPLICA_TYPE)
    return role is not None and role != Role.COORDINATOR.value
