"""The programs of the cluster: which, in what version, and where they come from.

In order: `KUBEBUILDER_ASSETS`, the cache, `PATH`, and last a build of our own from Go modules. A
found program is taken only if its version has the pinned major and minor number.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from di_cluster.builds.gobuild import Builder
from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from di_cluster.workfolder import lock_file

KUBERNETES_VERSION = "1.37.1"
_STAMP = "k8s.io/component-base/version"
_KUEUE = "sigs.k8s.io/kueue"
_KEDA = "github.com/kedacore/keda/v2"
_BUILD_SECONDS = 3600
_CHECKSUMS = "checksums.json"
_MANIFESTS = "manifests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Programs that are built together from one Go module.

    Attributes:
        name: folder of its go.mod below `tools/cluster/go`.
        version: the pinned version, also required by that go.mod.
        programs: each program with the arguments that print its version.
        built_as: names that `go install` gives, where they differ.
        stamps: linker variables. An unstamped Kubernetes calls itself v0.0.0-master, which
            kubectl cannot parse and helm takes for a cluster too old for any chart.
        manifests: YAML files that the programs need in the cluster: their Go module, and patterns
            of their paths in it.
    """

    name: str
    version: str
    programs: dict[str, tuple[str, ...]]
    built_as: dict[str, str]
    stamps: dict[str, str]
    manifests: tuple[str, tuple[str, ...]] | None = None

    def built_name(self, program: str) -> str:
        return self.built_as.get(program, program)


def _kubernetes(version: str) -> Component:
    major, minor, _ = version.split(".")
    flag = ("--version",)
    return Component(
        name="kubernetes",
        version=version,
        programs={
            "kube-apiserver": flag,
            "kube-controller-manager": flag,
            "kube-scheduler": flag,
            "kubelet": flag,
            "kube-proxy": flag,
            "kubectl": ("version", "--client"),
        },
        built_as={},
        stamps={
            f"{_STAMP}.gitVersion": f"v{version}",
            f"{_STAMP}.gitMajor": major,
            f"{_STAMP}.gitMinor": minor,
            f"{_STAMP}.gitTreeState": "clean",
        },
    )


COMPONENTS = (
    _kubernetes(KUBERNETES_VERSION),
    Component(
        name="etcd",
        version="3.7.3",
        programs={"etcd": ("--version",)},
        built_as={"etcd": "server"},
        stamps={},
    ),
    Component(
        name="helm",
        version="4.3.1",
        programs={"helm": ("version", "--short")},
        built_as={},
        stamps={"helm.sh/helm/v4/internal/version.version": "v4.3.1"},
    ),
    Component(
        name="oras",
        version="1.3.4",
        programs={"oras": ("version",)},
        built_as={},
        stamps={},
    ),
    Component(
        name="notation",
        version="1.3.2",
        programs={"notation": ("version",)},
        built_as={},
        stamps={},
    ),
    Component(
        name="versitygw",
        version="1.8.0",
        # What it prints is not its version alone: what is found on PATH is never taken.
        programs={"versitygw": ("--version",)},
        built_as={},
        stamps={"main.Version": "1.8.0"},
    ),
    Component(
        name="kwok",
        version="0.8.0",
        programs={"kwok": ("--version",)},
        built_as={},
        stamps={},
    ),
    Component(
        name="coredns",
        version="1.15.0",
        programs={"coredns": ("-version",)},
        built_as={},
        stamps={},
    ),
    Component(
        name="cert-manager",
        version="1.21.2",
        programs={"cert-manager": ("-version",)},
        built_as={},
        stamps={"main.version": "1.21.2"},
        manifests=("github.com/cert-manager/cert-manager", ("deploy/crds/*.yaml",)),
    ),
    Component(
        name="kueue",
        version="0.19.2",
        # It has no argument that prints its version: what is found on PATH is never taken.
        programs={"kueue": ("--version",)},
        built_as={},
        stamps={f"{_KUEUE}/pkg/version.GitVersion": "v0.19.2"},
        manifests=(
            _KUEUE,
            ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
        ),
    ),
    Component(
        name="keda",
        version="2.20.1",
        # Nor have these: whatever is asked, they want an API server first.
        programs={"keda-operator": ("--version",), "keda-adapter": ("--version",)},
        built_as={"keda-operator": "operator", "keda-adapter": "adapter"},
        stamps={f"{_KEDA}/version.Version": "2.20.1"},
        manifests=(_KEDA, ("config/crd/bases/*.yaml",)),
    ),
    Component(
        name="metrics-server",
        version="0.9.0",
        programs={"metrics-server": ("--version",)},
        built_as={},
        stamps={"k8s.io/client-go/pkg/version.gitVersion": "v0.9.0"},
        manifests=("sigs.k8s.io/metrics-server", ("manifests/base/*.yaml",)),
    ),
    Component(
        name="otel-collector",
        version="0.165.0",
        programs={"otel-collector": ("--version",)},
        built_as={},
        stamps={"main.version": "0.165.0"},
    ),
    Component(
        name="prometheus-adapter",
        version="0.12.0",
        programs={"prometheus-adapter": ("--version",)},
        built_as={"prometheus-adapter": "adapter"},
        stamps={},
    ),
    Component(
        name="scheduler-plugins",
        version="0.34.7",
        programs={"scheduler-plugins": ("--version",)},
        built_as={"scheduler-plugins": "scheduler"},
        # Of the Kubernetes that it is built from: by its own it would be older than all features.
        # So none on PATH fits, which is found by that number.
        stamps={f"{_STAMP}.gitVersion": "v1.34.7"},
        manifests=("sigs.k8s.io/scheduler-plugins", ("config/crd/bases/*.yaml",)),
    ),
    Component(
        name="training-operator",
        version="1.9.3",
        # It cannot print its version either.
        programs={"training-operator": ("--version",)},
        built_as={"training-operator": "training-operator.v1"},
        stamps={},
        manifests=(
            "github.com/kubeflow/training-operator",
            ("manifests/base/crds/kubeflow.org_pytorchjobs.yaml",),
        ),
    ),
    Component(
        name="kuberay",
        version="1.6.0",
        # Nor can this one.
        programs={"ray-operator": ("--version",)},
        built_as={},
        stamps={},
        manifests=("github.com/ray-project/kuberay/ray-operator", ("config/crd/bases/*.yaml",)),
    ),
)

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy")
LATER = ("coredns", "helm")
"""What a cluster with nodes needs once its API server is up."""


def component_of(program: str) -> Component:
    """The component that a program belongs to.

    Raises:
        ClusterError: it belongs to none.
    """
    for component in COMPONENTS:
        if program in component.programs:
            return component
    known = ", ".join(sorted(name for each in COMPONENTS for name in each.programs))
    raise ClusterError(f"no program {program!r}; there are {known}")


def version_fits(printed: str, pinned: str) -> bool:
    """Whether a program's own version text has the pinned major and minor number."""
    found = re.search(r"(\d+)\.(\d+)(?:\.\d+)?", printed)
    return found is not None and list(found.groups()) == pinned.split(".")[:2]


class Binaries:
    """Finds the programs, building what is missing."""

    def __init__(self, *, settings: Settings, reporter: Reporter, builder: Builder) -> None:
        self._settings = settings
        self._reporter = reporter
        self._builder = builder
        self._found: dict[str, Path] = {}

    @property
    def folder(self) -> Path:
        return self._settings.cache / "bin"

    def path(self, program: str) -> Path:
        """The path of a program; it is built if it has to be.

        Raises:
            ClusterError: it cannot be had.
        """
        if program not in self._found:
            self.ensure([program])
        return self._found[program]

    def manifests(self, program: str) -> list[Path]:
        """The YAML files that a program needs in the cluster; they are fetched if they have to be.

        Raises:
            ClusterError: they cannot be had.
        """
        component = component_of(program)
        folder = self._cache_folder(component) / _MANIFESTS
        if not folder.is_dir():
            self._build(component)
        return sorted(folder.glob("*.yaml"))

    def is_ready(self, component: Component) -> bool:
        """Whether nothing of a component would have to be built or fetched."""
        has_manifests = (self._cache_folder(component) / _MANIFESTS).is_dir()
        return not self.missing(component.programs) and (
            has_manifests or component.manifests is None
        )

    def missing(self, programs: Iterable[str]) -> list[str]:
        """Those of the programs that would have to be built."""
        return [program for program in programs if self._find(program) is None]

    def ensure(self, programs: Iterable[str], *, then: Iterable[str] = ()) -> None:
        """Make sure that all of the programs are there.

        Args:
            then: others that will be wanted next: their sources are fetched meanwhile.

        Raises:
            ClusterError: one cannot be built.
        """
        programs = list(programs)
        wanted = self.missing([*programs, *then])
        missing = list(dict.fromkeys(component_of(each).name for each in wanted))
        if len(missing) > 1:
            self._reporter.say(f"to be built, one after another: {', '.join(missing)}")
        # What the next ones are made of comes over the network while the processors build.
        self._builder.fetch(missing)
        for program in programs:
            if self._find(program) is None:
                self._build(component_of(program))
                if self._find(program) is None:
                    raise ClusterError(f"{program} was built but is not in {self.folder}")

    def _find(self, program: str) -> Path | None:
        if program in self._found:
            return self._found[program]
        component = component_of(program)
        cached = self._cache_folder(component) / program
        search = ([self._settings.assets / program] if self._settings.assets else []) + [cached]
        for candidate in search:
            good = (
                self._is_intact(component, program)
                if candidate == cached
                else _fits(candidate, component, program)
            )
            if good:
                self._found[program] = candidate
                return candidate
        on_path = shutil.which(program, path=self._settings.search_path)
        if on_path is not None and _fits(Path(on_path), component, program):
            self._found[program] = Path(on_path)
            return self._found[program]
        return None

    def _cache_folder(self, component: Component) -> Path:
        return self.folder / f"{component.name}-{component.version}"

    def _is_intact(self, component: Component, program: str) -> bool:
        """Whether the cached file is the one that was built; hashes it if it was touched."""
        folder = self._cache_folder(component)
        try:
            recorded = json.loads((folder / _CHECKSUMS).read_text())[program]
            status = (folder / program).stat()
            if recorded["size"] != status.st_size:
                return False
            if recorded["mtime_ns"] == status.st_mtime_ns:
                return True
            return bool(recorded["sha256"] == _sha256(folder / program))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _is_whole(self, component: Component) -> bool:
        intact = all(self._is_intact(component, program) for program in component.programs)
        has_manifests = (self._cache_folder(component) / _MANIFESTS).is_dir()
        return intact and (has_manifests or component.manifests is None)

    def _build(self, component: Component) -> None:
        target = self._cache_folder(component)
        with lock_file(self.folder / ".lock", seconds=_BUILD_SECONDS):
            if self._is_whole(component):
                return  # another process has built it while we waited
            title = f"{component.name} {component.version}"
            with self._reporter.step(f"built {title}"):
                built = self._builder.build(component.name, stamps=component.stamps)
                try:
                    if component.manifests is not None:
                        module, patterns = component.manifests
                        _keep(self._builder.sources(component.name, module), patterns, built)
                    _install(component, built, target)
                finally:
                    shutil.rmtree(built, ignore_errors=True)


def _keep(sources: Path, patterns: Iterable[str], built: Path) -> None:
    """Copy manifests beside the programs: Go's cache of modules may be cleaned."""
    folder = built / _MANIFESTS
    folder.mkdir()
    for pattern in patterns:
        for path in sources.glob(pattern):
            shutil.copyfile(path, folder / path.name)


def _install(component: Component, built: Path, target: Path) -> None:
    """Move built programs into the cache, with checksums; all or nothing."""
    checksums = {}
    for program in component.programs:
        path = built / component.built_name(program)
        path = path.rename(built / program)
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        status = path.stat()
        checksums[program] = {
            "sha256": _sha256(path),
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
        }
    (built / _CHECKSUMS).write_text(json.dumps(checksums, indent=2) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    built.rename(target)


def _fits(path: Path, component: Component, program: str) -> bool:
    if not path.is_file():
        return False
    try:
        printed = run([path, *component.programs[program]], seconds=10)
    except CommandFailed:
        return False
    return version_fits(printed, component.version)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
