"""The commands that build the images, bring them to the nodes, and install the chart."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CHART: Final = "charts/di-orchestrator"
RELEASE: Final = "di-orchestrator"
DOCKERFILES: Final[Mapping[str, str]] = {
    **{name: f"services/{name}/Dockerfile" for name in ("webhook", "operator", "server")},
    "history": "services/history/Dockerfile",
    "dashboard": "dashboard/Dockerfile",
}
"""The Dockerfile of each component of the chart."""
ALWAYS: Final = ("webhook", "operator", "server")
OPTIONAL: Final = ("history", "dashboard")
"""Components that a value `COMPONENT.enabled` of the chart adds."""
ENGINES: Final = ("docker", "podman", "buildah")
"""Programs that build and push images, in the order in which they are preferred."""
TIMEOUT: Final = "5m"
_REPOSITORY: Final = "opendilab"
_LOCAL: Final = "localhost"
_LOADED_BY: Final[Mapping[str, Sequence[str]]] = {
    "kind": ("kind", "load", "docker-image", "{image}", "--name", "{cluster}"),
    "k3d": ("k3d", "image", "import", "{image}", "--cluster", "{cluster}"),
    "minikube": ("minikube", "image", "load", "{image}", "--profile", "{cluster}"),
    # Without an image at its input the second command fails as well.
    "k3s": ("sh", "-c", "{engine} save {image} | k3s ctr images import -"),
    "di-cluster": ("di-cluster", "load-image", "--name", "{cluster}", "{image}"),
}
_ENABLED: Final = re.compile(r"(?:^|,)(history|dashboard)\.enabled=(true|false)(?=,|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A cluster on this machine, whose nodes can be given images without a registry.

    Attributes:
        program: loads images: kind, k3d, minikube, k3s or di-cluster.
        name: of the cluster, for that program.
    """

    program: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The settings of an installation.

    Attributes:
        target: the registry that nodes pull from, or the cluster on this machine.
        engine: the program that builds images; None: they are in the registry already.
        tag: of all images.
        components: of the chart, as far as they are enabled.
        base: the image that all images are based on; None: that of the Dockerfiles.
        context: of the kubeconfig; empty inside a pod.
        helm: arguments of the user for helm: `--set`, `--values`.
    """

    target: str | LocalCluster
    engine: str | None
    tag: str
    components: Sequence[str]
    context: str
    namespace: str
    base: str | None = None
    helm: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what it is for if it fails."""

    purpose: str
    words: Sequence[str]
    remedy: str = field(default="", kw_only=True)

    @property
    def line(self) -> str:
        """Return the command as a line for a shell."""
        return shlex.join(self.words)


def local_cluster(
    context: str, of_di_cluster: Iterable[str], *, has_k3s: bool = False
) -> LocalCluster | None:
    """Return the cluster on this machine that a context is of, by its name.

    Args:
        context: kind, k3d and minikube name their contexts by a rule.
        of_di_cluster: the clusters of di-cluster, which have contexts of the same name.
        has_k3s: whether this machine is a server of k3s, whose context is `default`.
    """
    for program in ("kind", "k3d"):
        if context.startswith(f"{program}-"):
            return LocalCluster(program=program, name=context.removeprefix(f"{program}-"))
    if context == "minikube":
        return LocalCluster(program="minikube", name=context)
    if has_k3s and context in ("default", "k3s"):
        return LocalCluster(program="k3s", name=context)
    if context in of_di_cluster:
        return LocalCluster(program="di-cluster", name=context)
    return None


def components(values: Mapping[str, Any], files: Iterable[Any], sets: Iterable[str]) -> list[str]:
    """Return the components of the chart that are enabled.

    Args:
        values: those of the installed release.
        files: the contents of the user's files of values.
        sets: the user's words for `--set`.
    """
    enabled = {}
    for each in (values, *files):
        for name in OPTIONAL:
            of_it = each.get(name) if isinstance(each, Mapping) else None
            if isinstance(of_it, Mapping) and "enabled" in of_it:
                enabled[name] = of_it["enabled"] is True
    for words in sets:
        enabled |= {name: value == "true" for name, value in _ENABLED.findall(words)}
    return [*ALWAYS, *(name for name in OPTIONAL if enabled.get(name))]


def check(wanted: Wanted) -> Step:
    """Return the command that checks the values before anything is built."""
    words = ("helm", "template", RELEASE, CHART, "--namespace", wanted.namespace)
    return Step(
        "the values of the chart are wrong",
        [*words, *_values(wanted)],
        remedy=f"{CHART}/README.md has all values",
    )


def steps(wanted: Wanted) -> Iterator[Step]:
    """Return the commands, in order."""
    for component in wanted.components if wanted.engine else ():
        yield _build(wanted, component)
        yield _deliver(wanted, component)
    context = ("--kube-context", wanted.context) if wanted.context else ()
    yield Step(
        "the chart was not installed",
        [
            *("helm", "upgrade", "--install", RELEASE, CHART, *context),
            *("--namespace", wanted.namespace, "--create-namespace"),
            *("--reset-then-reuse-values", "--wait", "--timeout", TIMEOUT),
            *_values(wanted),
        ],
        remedy=f"kubectl get pods,events -n {wanted.namespace}",
    )


def image(wanted: Wanted, component: str) -> str:
    """Return the name of the image of a component, as the chart makes it."""
    return f"{_registry(wanted)}/{_REPOSITORY}/di-{component}:{wanted.tag}"


def _build(wanted: Wanted, component: str) -> Step:
    base = ("--build-arg", f"BASE_IMAGE={wanted.base}") if wanted.base else ()
    file, name = DOCKERFILES[component], image(wanted, component)
    if wanted.engine == "di-cluster":
        words = ["di-cluster", "build-image", "--file", file, *base, name, "."]
    else:
        words = [str(wanted.engine), "build", "--file", file, *base, "--tag", name, "."]
    return Step(
        f"the image of {component} was not built",
        words,
        remedy="--base-image IMAGE, if python:3.13-slim cannot be pulled",
    )


def _deliver(wanted: Wanted, component: str) -> Step:
    name = image(wanted, component)
    if isinstance(wanted.target, LocalCluster):
        words = [
            each.format(image=name, cluster=wanted.target.name, engine=wanted.engine)
            for each in _LOADED_BY[wanted.target.program]
        ]
        return Step(
            f"{wanted.target.program} did not load the image of {component}",
            words,
            remedy="run it as root, which k3s ctr needs" if wanted.target.program == "k3s" else "",
        )
    host = wanted.target.partition("/")[0].partition(":")[0]
    # docker speaks HTTP to a registry of this machine by itself.
    plain = host in (_LOCAL, "127.0.0.1") and wanted.engine != "docker"
    words = [str(wanted.engine), "push", *(["--tls-verify=false"] if plain else ()), name]
    return Step(
        f"the image of {component} was not pushed",
        words,
        remedy=f"{wanted.engine} login {wanted.target.partition('/')[0]}",
    )


def _registry(wanted: Wanted) -> str:
    return wanted.target.rstrip("/") if isinstance(wanted.target, str) else _LOCAL


def _values(wanted: Wanted) -> list[str]:
    tags = ",".join(f"{each}.image.tag={wanted.tag}" for each in wanted.components)
    ours = f"imageRegistry={_registry(wanted)},{tags}"
    # Of the same kind as those of the user, which come later and win.
    return ["--set", ours, *wanted.helm]
