"""The product on a cluster of this machine: its images built and loaded, its chart installed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from di_cluster.builds.images import Image, Source
from di_cluster.cluster import Cluster
from di_cluster.commands import run, succeeds
from di_cluster.current import CurrentCluster
from di_cluster.errors import ClusterError
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

SERVICES = {
    **{name: f"services/{name}" for name in ("webhook", "operator", "server", "history")},
    "dashboard": "dashboard",
}
"""Folders of the Dockerfiles, by component of the chart."""
REPOSITORY = "opendilab"
TAG = "dev"
_HELM_SECONDS = 180


def service_source(root: Path, service: str) -> Source:
    """What a component's image is built of."""
    return Source(
        context=root,
        tag=f"{REPOSITORY}/di-{service}:{TAG}",
        dockerfile=root / SERVICES[service] / "Dockerfile",
    )


class Target(Protocol):
    """The part of a cluster that a release needs."""

    @property
    def kubeconfig(self) -> Path: ...

    def binary(self, program: str) -> Path: ...

    def build_image(self, context: Path, tag: str, dockerfile: Path | None = None) -> Image: ...

    def load_image(self, image: Image) -> None: ...


class Release:
    """One installation of the chart, with images made from the source tree.

    Args:
        cluster: where it goes.
        root: the root folder of the source tree.
        namespace: the namespace of the services; made if missing.
        name: helm's name of the release.
        reporter: where progress goes.
    """

    def __init__(
        self,
        cluster: Target,
        *,
        root: Path,
        reporter: Reporter,
        namespace: str = "di-system",
        name: str = "di-orchestrator",
    ) -> None:
        self._cluster = cluster
        self._root = root
        self._reporter = reporter
        self.namespace = namespace
        self.name = name

    @property
    def chart(self) -> Path:
        return self._root / "charts" / "di-orchestrator"

    def build_images(self, services: Collection[str] = tuple(SERVICES)) -> dict[str, Image]:
        """Build the images; those whose sources did not change take no time.

        Args:
            services: components of the chart.

        Raises:
            ClusterError: a build fails.
        """
        sources = ((service, service_source(self._root, service)) for service in services)
        return {
            service: self._cluster.build_image(each.context, each.tag, dockerfile=each.dockerfile)
            for service, each in sources
        }

    def install(self, images: dict[str, Image], *, arguments: Sequence[str] = ()) -> str:
        """Install the chart with these images, or upgrade it; wait until every pod is ready.

        Args:
            images: what `build_images` returned.
            arguments: further arguments of `helm upgrade`.

        Raises:
            CommandFailed: helm's own words, when the release does not become ready in time.
        """
        for image in images.values():
            self._cluster.load_image(image)
        values = {
            service: {
                "image": {"tag": TAG, "pullPolicy": "IfNotPresent"},
                # The tag stays the same when the content changes: the id makes pods follow.
                "podAnnotations": {"diengine/image-id": image.image_id},
            }
            for service, image in images.items()
        }
        registry = images["server"].reference.partition(f"{REPOSITORY}/")[0].rstrip("/")
        with self._reporter.step(f"helm installed release {self.name} in {self.namespace}"):
            return self.helm(
                *("upgrade", "--install", self.name, str(self.chart)),
                *("--create-namespace", "--wait", "--timeout", f"{_HELM_SECONDS - 30}s"),
                *("--values", "-"),
                *arguments,
                stdin=json.dumps({"imageRegistry": registry, **values}),
            )

    def helm(self, *arguments: str, stdin: str = "") -> str:
        """Run helm against the cluster, in the release's namespace.

        Raises:
            CommandFailed: helm fails or takes too long.
        """
        return run(
            [
                *(self._cluster.binary("helm"), "--kubeconfig", self._cluster.kubeconfig),
                *("--namespace", self.namespace, *arguments),
            ],
            seconds=_HELM_SECONDS,
            stdin=stdin,
        )


def image_builder(settings: Settings, reporter: Reporter) -> Cluster | CurrentCluster:
    """Docker or podman where one works, else buildah; needs no running cluster."""
    if any(succeeds([engine, "info"]) for engine in ("docker", "podman")):
        return CurrentCluster(settings=settings, reporter=reporter)
    return Cluster(settings=settings, reporter=reporter)


def main() -> int:
    """Build the images of the four services from the current folder and print their names.

    With docker or podman where one works, so that they can be tagged and pushed from there;
    else with buildah, into the local cluster's image store.
    """
    settings, reporter = Settings.from_environment(os.environ), Reporter(sys.stderr)
    builder = image_builder(settings, reporter)
    try:
        images = Release(builder, root=Path.cwd(), reporter=reporter).build_images()
    except ClusterError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    for image in images.values():
        print(f"{image.reference} {image.image_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
