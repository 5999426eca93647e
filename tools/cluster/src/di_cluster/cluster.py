"""A cluster of this machine: up, down, and everything tests and developers do with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from di_cluster import preflight
from di_cluster.box import Box, kill_box
from di_cluster.builds import binaries
from di_cluster.builds.binaries import Binaries
from di_cluster.builds.gobuild import Builder
from di_cluster.builds.images import Image, ImageStore
from di_cluster.controlplane import ControlPlane
from di_cluster.dns import Dns
from di_cluster.errors import ClusterError
from di_cluster.network import MAX_NODES, Network
from di_cluster.nodes.node import Node
from di_cluster.nodes.node_config import NodePaths
from di_cluster.nodes.simulated import MAX_SIMULATED, SimulatedNodes
from di_cluster.pki import ensure_pki
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from di_cluster.workfolder import Registration, Registry, lock_file

Profile = Literal["control-plane", "node"]
GO_MODULES = Path(__file__).resolve().parents[2] / "go"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """One daemon of a cluster: memory in bytes, times in seconds; no pid: it has died."""

    name: str
    pid: int | None
    memory: int
    cpu_seconds: float
    age_seconds: float


class Cluster:
    """One Kubernetes cluster in a box of its own.

    Args:
        name: clusters of different names run side by side (up to ten).
        profile: "control-plane" has the API server, controllers and scheduler only; "node" adds
            real nodes that run containers, and DNS.
        nodes: the number of real nodes of the "node" profile.
        api_server_args: further arguments of kube-apiserver.
        feature_gates: features of Kubernetes that are not on by themselves, for the whole control
            plane.
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
        feature_gates: Sequence[str] = (),
        settings: Settings | None = None,
        reporter: Reporter | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if profile == "node" and not 1 <= nodes <= MAX_NODES:
            raise ClusterError(f"nodes {nodes}: must be 1 to {MAX_NODES}")
        self._settings = settings or Settings.from_environment(os.environ)
        self._reporter = reporter or Reporter(sys.stderr)
        self._clock = clock
        self._nodes = nodes if profile == "node" else 0
        self._api_server_args = tuple(api_server_args)
        self._feature_gates = tuple(feature_gates)
        self._registry = Registry(self._settings.cache / "clusters")
        self._folder = self._registry.folder(name)
        self.images = ImageStore(self._settings.cache / "images", reporter=self._reporter)
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
    def addresses(self) -> str:
        """Its network, as text: nodes, pods and Services are all in it."""
        return str(self._network.whole)

    def all_names(self) -> list[str]:
        """The names of all clusters on this machine."""
        return self._registry.names()

    @property
    def logs(self) -> Path:
        return self._folder.logs

    def pod_logs(self) -> list[Path]:
        """The files with the output of the containers on the real nodes."""
        return sorted(self._folder.root.glob("nodes/*/pod-logs/*/*/*.log"))

    @property
    def is_up(self) -> bool:
        registration = self._registry.registration(self.name)
        return registration is not None and self._box(registration).is_up

    def binary(self, program: str) -> Path:
        """The path of kubectl, helm, kwok, etcd, cert-manager, ...; built if needed."""
        return self._binaries.path(program)

    def manifests(self, program: str) -> list[Path]:
        """The YAML files, such as CRDs, that a program needs in the cluster."""
        return self._binaries.manifests(program)

    def prepare(self) -> None:
        """Build or find all programs; the one part of `up` that needs no root.

        Raises:
            ClusterError: one cannot be had.
        """
        self._prepare(*self._programs(), *self._later())

    def prepare_images(self) -> None:
        """Install what the machine lacks: from then on `build_image` may go on beside `up`.

        Raises:
            ClusterError: something cannot be installed.
        """
        preflight.require_root()
        preflight.ensure_packages(node=self._nodes > 0, images=True, reporter=self._reporter)

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
        if self._nodes:
            preflight.require_short_paths(NodePaths(folder=self._folder.node("node-0")).kubelet)
        preflight.ensure_packages(node=self._nodes > 0, images=False, reporter=self._reporter)
        self._prepare(*self._programs(), then=self._later())
        with ThreadPoolExecutor(max_workers=1) as beside, self._exclusive():
            # What starts mostly waits, so the rest is built meanwhile.
            built = {each: beside.submit(self.binary, each) for each in self._later()}
            self._clean_up_after_crash()
            registration = self._register()
            network, box = Network(registration.number), self._box(registration)
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

            def binary(program: str) -> Path:
                return built[program].result() if program in built else self.binary(program)

            self._start(registration, box, binary)
            for each in built.values():
                each.result()
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
            else:
                kill_box(self._folder)  # its record is damaged
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
                age_seconds=process.age_seconds() if process else 0,
            )
            for name, process in self._box(registration).processes().items()
        ]

    def build_image(
        self,
        context: Path,
        tag: str,
        dockerfile: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> Image:
        """Build an image on this machine; see `ImageStore.build`. Needs no running cluster."""
        preflight.require_root()
        preflight.ensure_packages(node=False, images=True, reporter=self._reporter)
        preflight.require_disk(
            self._settings.cache, free=3 * preflight.GIB, purpose=f"building image {tag}"
        )
        return self.images.build(context, tag=tag, dockerfile=dockerfile, build_args=build_args)

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        """Push a built image; see `ImageStore.push`. Needs no running cluster."""
        self.images.push(image, destination, plain=plain)

    def load_image(self, image: Image) -> None:
        """Put a built image on every real node; does nothing where it is already.

        The image is found by its id: another build on this machine may have taken its name since.

        Raises:
            ClusterError: the cluster is down or has no nodes.
        """
        preflight.require_root()
        registration, box = self._running()
        if not registration.nodes:
            raise ClusterError(f"cluster {self.name} has no nodes that could run an image")
        archive = self.images.archive(image)
        for node in self._real_nodes(registration, box):
            with self._reporter.step(f"loaded {image.reference} into {node.name}"):
                node.import_images(archive, {image.reference: image.image_id})

    def add_nodes(self, count: int, *, gpus: int = 0, cpus: int = 32) -> list[str]:
        """Add simulated nodes; returns their names.

        Args:
            count: how many.
            gpus: `nvidia.com/gpu` of each.
            cpus: cores of each.

        Raises:
            ClusterError: a number makes no sense, the cluster is down, or they do not come up.
        """
        if not 1 <= count <= MAX_SIMULATED:
            raise ClusterError(f"{count} simulated nodes: must be 1 to {MAX_SIMULATED}")
        if gpus < 0 or cpus < 1:
            raise ClusterError(f"gpus {gpus} must be at least 0 and cpus {cpus} at least 1")
        preflight.require_root()
        with self._exclusive():
            registration, box = self._running()
            simulated = SimulatedNodes(
                box=box,
                network=Network(registration.number),
                folder=self._folder,
                binary=self.binary,
            )
            with self._reporter.step(f"added {count} simulated nodes"):
                simulated.start()
                return simulated.add(count, gpus=gpus, cpus=cpus)

    def run_in_box(self, argv: Sequence[str | Path], *, seconds: float = 30) -> str:
        """Run a program inside the cluster's namespaces and return its output.

        Raises:
            ClusterError: the cluster is down, or the program fails.
        """
        preflight.require_root()
        _, box = self._running()
        return box.run(argv, seconds=seconds)

    @property
    def _network(self) -> Network:
        registration = self._registry.registration(self.name)
        if registration is None:
            raise ClusterError(f"there is no cluster {self.name}: di-cluster up --name {self.name}")
        return Network(registration.number)

    def _programs(self) -> tuple[str, ...]:
        """What has to be there before anything is started."""
        return binaries.CONTROL_PLANE + (binaries.NODE if self._nodes else ())

    def _later(self) -> tuple[str, ...]:
        return binaries.LATER if self._nodes else ()

    def _prepare(self, *programs: str, then: Sequence[str] = ()) -> None:
        if self._binaries.missing((*programs, *then)):
            preflight.require_disk(
                self._settings.cache, free=10 * preflight.GIB, purpose="building Kubernetes"
            )
        self._binaries.ensure(programs, then=then)

    def _box(self, registration: Registration) -> Box:
        return Box(network=Network(registration.number), folder=self._folder)

    def _clean_up_after_crash(self) -> None:
        """Remove leftovers of a run that was killed or of a machine that was switched off."""
        known = self._registry.registration(self.name)
        if known is None:
            kill_box(self._folder)
        elif self._box(known).is_up:
            return
        else:
            self._box(known).down()
        self._folder.clear(purge=False)

    def _register(self) -> Registration:
        """Reserve addresses; a running cluster keeps what it has and may get more nodes."""
        used = preflight.networks_in_use()
        known = self._registry.registration(self.name)
        running = known is not None and self._box(known).is_up
        nodes = max(self._nodes, known.nodes) if known is not None and running else self._nodes
        return self._registry.register(
            self.name,
            nodes=nodes,
            is_free=lambda network: preflight.network_conflict(network, used) is None,
        )

    def _start(self, registration: Registration, box: Box, binary: Callable[[str], Path]) -> None:
        """Start what does not run: the API server and containerd at once, then the rest."""
        network = Network(registration.number)
        control_plane = ControlPlane(
            box=box,
            network=network,
            folder=self._folder,
            binary=binary,
            extra_api_server_args=self._api_server_args,
            feature_gates=self._feature_gates,
        )
        nodes = self._real_nodes(registration, box)
        with self._reporter.step("API server is ready"):
            control_plane.start_api_server()
            for node in nodes:
                node.start_runtime()
            if nodes:
                archive, images = self.images.node_images()
                for node in nodes:
                    node.wait_for_runtime()
                    node.import_images(archive, images)
            control_plane.wait_for_api_server()
        with self._reporter.step("controllers run"):
            control_plane.start_controllers()
            for node in nodes:
                node.start()
            dns = Dns(box=box, network=network, folder=self._folder, binary=binary)
            if nodes:
                dns.start(control_plane.api)
            control_plane.wait_for_controllers()
        if nodes:
            with self._reporter.step(f"{len(nodes)} node(s) and DNS are ready"):
                for node in nodes:
                    node.wait_until_ready(control_plane.api)
                dns.wait()

    def _real_nodes(self, registration: Registration, box: Box) -> list[Node]:
        if not registration.nodes:
            return []
        plugins = preflight.cni_folder()
        return [
            Node(
                index,
                box=box,
                network=Network(registration.number),
                folder=self._folder,
                binary=self.binary,
                cni_binaries=plugins,
            )
            for index in range(registration.nodes)
        ]

    def _running(self) -> tuple[Registration, Box]:
        registration = self._registry.registration(self.name)
        if registration is not None:
            box = self._box(registration)
            if box.is_up:
                return registration, box
        raise ClusterError(f"cluster {self.name} is down: di-cluster up --name {self.name}")

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
