"""The names of a run's pods in a file, for programs that are told a name while they run.

What a program is told at its start has addresses in place of names (di_local.addresses). di-server
answers with names, such as those of a coordinator's collectors: Python programs find them here
(di_local.inside), as in the cluster's DNS from the moment that the pod is made.
"""

from __future__ import annotations

from pathlib import Path

from di_api.names import LABEL_REPLICA_TYPE
from di_api.spec.coordinated import Role
from di_kube.resources import PODS
from di_local.addresses import Network, NoAddress
from di_local.api.objects import Change, Object, Objects

FILE = Path("names/hosts")
"""In a directory of its own, which containers may see."""


class Hosts:
    """Keeps the file: a line for each pod, its address and its name as in a cluster, without what
    all names end with (`svc.cluster.local`).

    Args:
        path: of the file; it is replaced, never changed.
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
            # It does not start either, and says so.
            return ""


def _never_again(pod: Object) -> bool:
    """Whether a pod's name was chosen for it alone: what a coordinator asks for, comes and goes."""
    role = (pod["metadata"].get("labels") or {}).get(LABEL_REPLICA_TYPE)
    return role is not None and role != Role.COORDINATOR.value
