"""Everything that tests need before the first of them runs, in one table."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from di_cluster import preflight
from di_cluster.builds.binaries import COMPONENTS, Binaries, Component
from di_cluster.builds.gobuild import Builder, required_go
from di_cluster.builds.images import Image, Source
from di_cluster.cluster import GO_MODULES, Cluster
from di_cluster.release import SERVICES, service_source
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from examples.images import source
from tools.prepare import debian, prometheus, versions
from tools.prepare.debian import CHROMIUM, DOCKER, PODMAN, POSTGRES, Packages
from tools.prepare.environments import DI_ENGINE, RL_LIBRARIES, TRACKERS
from tools.prepare.items import Command, Group, Item
from tools.soak import linear

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final[Mapping[str, tuple[Command, Group]]] = {
    "kubernetes": ("test", "control plane"),
    "etcd": ("test", "control plane"),
    "coredns": ("test", "node"),
    "kwok": ("test", "control plane"),
    "helm": ("test", "helm"),
    "oras": ("all", "release"),
    "notation": ("all", "release"),
    "versitygw": ("all", "storage"),
    "keda": ("all", "peers"),
    "metrics-server": ("all", "peers"),
    "otel-collector": ("all", "peers"),
    "kueue": ("all", "kueue"),
    "cert-manager": ("all", "peers"),
    "prometheus-adapter": ("all", "peers"),
    "scheduler-plugins": ("all", "peers"),
    "training-operator": ("bench", "rival"),
    "kuberay": ("bench", "rival"),
}
"""Components of `di_cluster.builds.binaries`: the first command that needs each, and what for."""
PACKAGES: Final[Sequence[tuple[Command, Group, Mapping[str, Packages]]]] = (
    ("test", "browser", {"Chromium": CHROMIUM}),
    ("all", "storage", {"PostgreSQL": POSTGRES}),
    ("all", "containers", {"podman": PODMAN, "Docker": DOCKER}),
)
"""Programs of Debian that tests need; clusters name theirs in `di_cluster.preflight`."""
EXAMPLES: Final[Mapping[str, Command]] = {
    "cartpole": "test",
    "coordinated-cartpole": "all",
    "di-engine": "all",
    "grpo": "all",
    "impala": "all",
    "jax": "all",
    "mpi": "all",
    "paddle": "all",
    "ray": "all",
    "share": "all",
    "tensorflow": "all",
    "torch-ddp": "all",
    "xgboost": "all",
}
"""Examples whose images tests run."""
_NODES: Final = "packages of nodes"
_NETWORK: Final = "see whether this machine reaches {}, directly or through HTTPS_PROXY"
_GO_ADVICE: Final = _NETWORK.format("proxy.golang.org") + "; GOPROXY names another one"
_APT_ADVICE: Final = _NETWORK.format("the package sources of /etc/apt") + "; run it as root"


def items(settings: Settings, reporter: Reporter) -> list[Item]:
    """All items, those that take the longest first.

    With `CLUSTER=current` tests need no node and no image of this machine.
    """
    images: Iterable[Item] = [] if settings.cluster == "current" else _images(settings, reporter)
    return [*_programs(settings, reporter), *images, *_files()]


def _programs(settings: Settings, reporter: Reporter) -> Iterator[Item]:
    builder = Builder(
        modules=GO_MODULES,
        cache=settings.cache,
        search_path=settings.search_path,
        reporter=reporter,
    )
    binaries = Binaries(settings=settings, reporter=reporter, builder=builder)
    required = max(required_go(GO_MODULES / name) for name in PROGRAMS)
    yield Item(
        name="Go",
        command="test",
        group="control plane",
        how=f"pip install of Go {required[0]}.{required[1]} into a folder of its own",
        advice=f"{_NETWORK.format('PyPI')}, or install Go from https://go.dev/dl",
        is_ready=lambda: builder.present_go(required) is not None,
        make=lambda: builder.go(required),
    )

    def make(component: Component) -> None:
        # Their sources come over the network while this one is built.
        missing = [each.name for each in COMPONENTS if not binaries.is_ready(each)]
        builder.fetch([name for name in missing if PROGRAMS[name] == PROGRAMS[component.name]])
        binaries.ensure(component.programs)
        if component.manifests is not None:
            binaries.manifests(next(iter(component.programs)))

    for component in COMPONENTS:
        command, group = PROGRAMS[component.name]
        yield Item(
            name=f"{component.name} {component.version}",
            command=command,
            group=group,
            how=f"Go builds tools/cluster/go/{component.name}",
            advice=_GO_ADVICE,
            is_ready=partial(binaries.is_ready, component),
            make=partial(make, component),
            after=["Go"],
            turn="Go",
        )
    yield Item(
        name="checker of counters",
        command="all",
        group="soak",
        how="Go builds tools/soak/go/linear",
        advice=_GO_ADVICE,
        is_ready=linear.is_ready,
        make=linear.checker,
        after=["Go"],
        turn="Go",
    )


def _files() -> Iterator[Item]:
    yield Item(
        name="Prometheus",
        # promtool reads the chart's alerts.
        command="test",
        group="prometheus",
        how="apt-get download of prometheus, unpacked into the cache",
        advice=_APT_ADVICE,
        is_ready=prometheus.is_ready,
        make=prometheus.fetch,
        turn="apt",
    )
    yield Item(
        name="experiment trackers",
        command="all",
        group="peers",
        how="uv pip install of MLflow, Optuna, TensorBoard and Weights & Biases into a folder of "
        "their own",
        advice=_NETWORK.format("PyPI"),
        is_ready=TRACKERS.is_ready,
        make=TRACKERS.make,
    )
    yield Item(
        name="libraries of RL",
        command="all",
        group="libraries",
        how="uv pip install of PyTorch, TRL, RLlib and others into a folder of their own",
        advice=f"{_NETWORK.format('PyPI')}; UV_TORCH_BACKEND=cpu takes a smaller PyTorch",
        is_ready=RL_LIBRARIES.is_ready,
        make=RL_LIBRARIES.make,
    )
    yield Item(
        name="files of DI-engine",
        command="all",
        group="libraries",
        how="uv pip install of DI-engine alone into a folder of its own",
        advice=_NETWORK.format("PyPI"),
        is_ready=DI_ENGINE.is_ready,
        make=DI_ENGINE.make,
    )
    yield Item(
        name="the earlier version",
        command="all",
        group="earlier version",
        how=f"git archive of {versions.BEFORE_LENIENCY[:8]} into the cache",
        advice="run `git fetch --unshallow`, or clone the repository with its history",
        is_ready=versions.folder_of(versions.BEFORE_LENIENCY).exists,
        make=partial(versions.sources, versions.BEFORE_LENIENCY),
    )
    for command, group, packages in PACKAGES:
        yield Item(
            name=f"packages of {', '.join(packages)}",
            command=command,
            group=group,
            how=f"apt-get install for {', '.join(packages)}",
            advice=_APT_ADVICE,
            is_ready=partial(_are_installed, packages),
            make=partial(debian.ensure, packages.values()),
            turn="apt",
        )


def _are_installed(packages: Mapping[str, Packages]) -> bool:
    return all(each.found() for each in packages.values())


def _images(settings: Settings, reporter: Reporter) -> Iterator[Item]:
    # Of a node, as such a cluster has: it names the packages, and is never started.
    cluster = Cluster("prepare", profile="node", settings=settings, reporter=reporter)
    yield Item(
        name=_NODES,
        command="test",
        group="node",
        how="apt-get install of containerd, runc, buildah and other packages",
        advice=_APT_ADVICE,
        is_ready=lambda: not preflight.packages_to_install(node=True, images=True),
        make=cluster.prepare_images,
        turn="apt",
    )
    yield Item(
        name="images of nodes",
        command="test",
        group="node",
        how="an archive made of /bin/busybox",
        advice="see whether the disk of DI_ORCHESTRATOR_CACHE is full",
        is_ready=lambda: cluster.images.has_node_images,
        make=cluster.images.node_images,
        after=[_NODES],
    )
    sources: dict[Source, Command] = {service_source(ROOT, each): "test" for each in SERVICES}
    sources |= {source(ROOT / "examples" / each): first for each, first in EXAMPLES.items()}
    images = _Images(cluster, list(sources))
    for each, command in sources.items():
        yield Item(
            name=f"image {each.tag}",
            command=command,
            group="node" if command == "test" else "examples",
            how=f"buildah builds {each.dockerfile.relative_to(ROOT)}",
            advice=f"{_NETWORK.format('PyPI and the package sources of /etc/apt')}; run it as root",
            is_ready=partial(images.has, each),
            make=partial(_build, cluster, each),
            after=[_NODES],
            turn="images",
        )


def _build(cluster: Cluster, each: Source) -> None:
    image: Image = cluster.build_image(each.context, each.tag, each.dockerfile)
    # What a node or Docker loads.
    cluster.images.archive(image)


class _Images:
    """Which images are built, asked once for all of them."""

    def __init__(self, cluster: Cluster, sources: Sequence[Source]) -> None:
        self._cluster = cluster
        self._sources = sources
        self._lock = threading.Lock()
        self._missing: list[Source] | None = None

    def has(self, source: Source) -> bool:
        """Whether that image has been built of the same sources."""
        with self._lock:
            if self._missing is None:
                self._missing = self._cluster.images.missing(self._sources)
        return source not in self._missing
