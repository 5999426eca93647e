"""A cluster of this machine: up, down, and everything tests and developers do with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from di_cluster import binaries, preflight
from di_cluster.binaries import Binaries
from di_cluster.box import Box
from di_cluster.controlplane import ControlPlane
from di_cluster.errors import ClusterError
from di_cluster.gobuild import Builder
from di_cluster.network import MAX_NODES, Network
from di_cluster.pki import ensure_pki
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from di_cluster.workfolder import Registration, Registry, lock_file

Profile = Literal["control-plane", "node"]
GO_MODULES = Path(__file__).resolve().parents[2] / "go"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """One daemon of a cluster: memory in bytes, processor time in seconds."""

    name: str
    pid: int | None
    memory: int
    cpu_seconds: float


class Cluster:
    """One Kubernetes cluster in a box of its own.

    Args:
        name: clusters of different names run side by side (up to ten).
        profile: "control-plane" has the API server, controllers and scheduler only; "node" adds
            real nodes that run containers, and DNS.
        nodes: the number of real nodes of the "node" profile.
        api_server_args: further arguments of kube-apiserver.
        settings: folders and search paths; from the environment if not given.
        reporter: where progress goes.
        clock: the current time (UTC) for certificates.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        profile: Profile = "control-plane",
        nodes: int = 1,
        api_server_args: Sequence[str] = (),
        settings: Settings | None = None,
        reporter: Reporter | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if profile == "node" and not 1 <= nodes <= MAX_NODES:
            raise ClusterError(f"nodes {nodes}: must be 1 to {MAX_NODES}")
        self._settings = settings or Settings.from_environment(os.environ)
        self._reporter = reporter or Reporter(sys.stderr)
        self._clock = clock
        self._profile: Profile = profile
        self._nodes = nodes if profile == "node" else 0
        self._api_server_args = tuple(api_server_args)
        self._registry = Registry(self._settings.cache / "clusters")
        self._folder = self._registry.folder(name)
        self._binaries = Binaries(
            settings=self._settings,
            reporter=self._reporter,
            builder=Builder(
                modules=GO_MODULES,
                cache=self._settings.cache,
                search_path=self._settings.search_path,
                reporter=self._reporter,
            ),
        )

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; it exists once the cluster has been up."""
        return self._folder.kubeconfig

    @property
    def host_address(self) -> str:
        """This machine's address as the cluster sees it; webhooks can be served on it."""
        return str(self._network.host)

    @property
    def logs(self) -> Path:
        return self._folder.logs

    @property
    def is_up(self) -> bool:
        registration = self._registry.registration(self.name)
        return registration is not None and self._box(registration).is_up

    def binary(self, program: str) -> Path:
        """The path of kubectl, helm, kwok, etcd, kube-apiserver, ...; built if needed."""
        return self._binaries.path(program)

    def prepare(self) -> None:
        """Build or find all programs; the one part of `up` that needs no root.

        Raises:
            ClusterError: one cannot be had.
        """
        wanted = binaries.CONTROL_PLANE + (binaries.NODE if self._nodes else ())
        if self._binaries.missing(wanted):
            preflight.require_disk(
                self._settings.cache, free=10 * preflight.GIB, purpose="building Kubernetes"
            )
        self._binaries.ensure(wanted)

    def up(self) -> None:
        """Bring the cluster up; starts only what does not run yet.

        Raises:
            ClusterError: the machine lacks something, or a part does not come up; then `down`
                removes what was started.
        """
        preflight.require_root()
        preflight.require_disk(
            self._settings.cache, free=preflight.GIB, purpose=f"cluster {self.name}"
        )
        preflight.ensure_packages(node=self._nodes > 0, images=False, reporter=self._reporter)
        self.prepare()
        with self._exclusive():
            registration = self._register()
            network, box = Network(registration.number), self._box(registration)
            if not box.is_up:
                # Leftovers of a run that was killed or of a machine that was switched off.
                box.down()
                self._folder.clear(purge=False)
            if ensure_pki(
                network=network,
                pki=self._folder.pki,
                kubeconfigs=self._folder.kubeconfigs,
                admin=self._folder.kubeconfig,
                name=self.name,
                now=self._clock(),
            ):
                self._reporter.say("made certificates")
            self._give_to_owner()
            if not box.is_up:
                with self._reporter.step(f"made the box {network.whole}"):
                    box.up()
            self._start(registration, box)
            self._reporter.say(f"cluster {self.name} is up: export KUBECONFIG={self.kubeconfig}")

    def down(self, *, purge: bool = False) -> None:
        """End the cluster and everything in it; `purge` also forgets certificates and images.

        Raises:
            ClusterError: something of it cannot be removed.
        """
        registration = self._registry.registration(self.name)
        if registration is None and not self._folder.root.exists():
            self._reporter.say(f"there is no cluster {self.name}")
            return
        preflight.require_root()
        with self._exclusive(), self._reporter.step(f"cluster {self.name} is down"):
            if registration is not None:
                self._box(registration).down()
            self._folder.clear(purge=purge)

    def status(self) -> list[ProcessStatus]:
        """Every daemon that was started, dead ones included."""
        registration = self._registry.registration(self.name)
        if registration is None:
            return []
        return [
            ProcessStatus(
                name=name,
                pid=process.pid if process else None,
                memory=process.memory() if process else 0,
                cpu_seconds=process.cpu_seconds() if process else 0,
            )
            for name, process in self._box(registration).processes().items()
        ]

    @property
    def _network(self) -> Network:
        registration = self._registry.registration(self.name)
        if registration is None:
            raise ClusterError(f"there is no cluster {self.name}: di-cluster up --name {self.name}")
        return Network(registration.number)

    def _box(self, registration: Registration) -> Box:
        return Box(network=Network(registration.number), folder=self._folder)

    def _register(self) -> Registration:
        used = preflight.networks_in_use()
        known = self._registry.registration(self.name)
        if known is not None and self._box(known).is_up:
            if known.profile != self._profile:
                raise ClusterError(
                    f"cluster {self.name} is up with profile {known.profile}; end it first: "
                    f"di-cluster down --name {self.name}"
                )
            if known.nodes > self._nodes:
                return known
        return self._registry.register(
            self.name,
            profile=self._profile,
            nodes=self._nodes,
            is_free=lambda network: preflight.network_conflict(network, used) is None,
        )

    def _start(self, registration: Registration, box: Box) -> None:
        network = Network(registration.number)
        control_plane = ControlPlane(
            box=box,
            network=network,
            folder=self._folder,
            binary=self.binary,
            extra_api_server_args=self._api_server_args,
        )
        with self._reporter.step("API server is ready"):
            control_plane.start_api_server()
            control_plane.wait_for_api_server()
        with self._reporter.step("controllers run"):
            control_plane.start_controllers()
            control_plane.wait_for_controllers()

    def _give_to_owner(self) -> None:
        """Let the user who called sudo use the kubeconfig."""
        if self._settings.owner is not None:
            os.chown(self.kubeconfig, *self._settings.owner)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One `up` or `down` at a time for each name."""
        locks = self._settings.cache / "clusters" / ".locks"
        with lock_file(locks / self.name, seconds=300):
            yield
