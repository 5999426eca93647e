"""`CLUSTER=current`: the cluster of the current kubeconfig in place of one of our own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from di_cluster.builds.images import Image
from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

_BUILD_SECONDS = 1800
_BUILDERS = ("docker", "podman")


class CurrentCluster:
    """A cluster that somebody else runs: kind, k3s, minikube or a real one.

    It has the interface of `Cluster`; nothing of the cluster itself is ever changed by it.
    """

    def __init__(self, *, settings: Settings, reporter: Reporter) -> None:
        self._settings = settings
        self._reporter = reporter

    @property
    def kubeconfig(self) -> Path:
        return self._settings.kubeconfig

    @property
    def host_address(self) -> str:
        """This machine's address as the cluster's pods see it.

        Raises:
            ClusterError: `DI_CLUSTER_HOST_ADDRESS` does not tell it, and nothing else knows.
        """
        if not self._settings.host_address:
            raise ClusterError(
                "CLUSTER=current: set DI_CLUSTER_HOST_ADDRESS to the address of this machine "
                "that the cluster's pods can reach"
            )
        return self._settings.host_address

    def binary(self, program: str) -> Path:
        """A program of this machine's PATH.

        Raises:
            ClusterError: it is not installed.
        """
        found = shutil.which(program, path=self._settings.search_path)
        if found is None:
            raise ClusterError(f"CLUSTER=current: {program} is not installed")
        return Path(found)

    def prepare_images(self) -> None:
        """Do nothing: what builds images here is the user's own."""

    def up(self) -> None:
        """Check that the cluster answers.

        Raises:
            ClusterError: there is no kubeconfig, or nobody answers.
        """
        if not self.kubeconfig.is_file():
            raise ClusterError(f"CLUSTER=current: there is no kubeconfig {self.kubeconfig}")
        try:
            run(
                [
                    *(self.binary("kubectl"), "--kubeconfig", self.kubeconfig),
                    *("--request-timeout=10s", "get", "--raw", "/readyz"),
                ]
            )
        except CommandFailed as error:
            raise ClusterError(f"CLUSTER=current: the cluster does not answer\n{error}") from error
        self._reporter.say(f"cluster of context {self.context} answers")

    def down(self, *, purge: bool = False) -> None:
        """Do nothing: the cluster is not ours."""
        del purge
        self._reporter.say(f"cluster of context {self.context} is left as it is")

    @property
    def context(self) -> str:
        """The current context's name; empty if there is none."""
        try:
            config = yaml.safe_load(self.kubeconfig.read_text())
        except (OSError, yaml.YAMLError):
            return ""
        return str(config.get("current-context", "")) if isinstance(config, dict) else ""

    def build_image(
        self,
        context: Path,
        tag: str,
        dockerfile: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> Image:
        """Build an image with docker or podman.

        Raises:
            ClusterError: neither is installed, or the build fails.
        """
        builder = self._builder()
        arguments = [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
        file: tuple[str | Path, ...] = ("-f", dockerfile) if dockerfile is not None else ()
        try:
            run([builder, "build", *arguments, *file, "-t", tag, context], seconds=_BUILD_SECONDS)
        except CommandFailed as error:
            raise ClusterError(f"image {tag} cannot be built\n{error}") from error
        image_id = run([builder, "image", "inspect", "--format", "{{.Id}}", tag]).strip()
        return Image(reference=tag, image_id=image_id.removeprefix("sha256:"))

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        """Push a built image under another name.

        Args:
            image: what `build_image` returned.
            destination: registry, repository and tag.
            plain: by HTTP. docker and podman decide that themselves.

        Raises:
            ClusterError: the registry refuses it.
        """
        builder = self._builder()
        run([builder, "tag", image.reference, destination])
        run([builder, "push", destination], seconds=_BUILD_SECONDS)

    def load_image(self, image: Image) -> None:
        """Put a built image on the cluster's nodes, as `load_tag` does."""
        self.load_tag(image.reference)

    def load_tag(self, tag: str) -> None:
        """Put an image on the cluster's nodes, where the kind of cluster has a way to do it.

        Raises:
            ClusterError: it has none, or that fails.
        """
        with self._reporter.step(f"loaded {tag}"):
            match image_loader(self.context):
                case "kind":
                    name = self.context.removeprefix("kind-")
                    run(
                        [self.binary("kind"), "load", "docker-image", tag, "--name", name],
                        seconds=_BUILD_SECONDS,
                    )
                case "minikube":
                    run([self.binary("minikube"), "image", "load", tag], seconds=_BUILD_SECONDS)
                case "k3s":
                    self._load_k3s(tag)
                case _:
                    raise ClusterError(
                        f"CLUSTER=current: context {self.context!r} is not known to be kind, k3s "
                        f"or minikube: push {tag} to a registry that the cluster can pull from"
                    )

    def add_nodes(self, count: int, *, gpus: int = 0, cpus: int = 32) -> list[str]:
        """Refuse: simulated nodes would be a nuisance in a cluster that is not ours.

        Raises:
            ClusterError: always.
        """
        raise ClusterError(
            f"CLUSTER=current: {count} simulated nodes ({cpus} CPUs, {gpus} GPUs) are for "
            "di-cluster's own clusters"
        )

    def _load_k3s(self, tag: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "image.tar"
            run([self._builder(), "save", "-o", archive, tag], seconds=_BUILD_SECONDS)
            run([self.binary("k3s"), "ctr", "images", "import", archive], seconds=_BUILD_SECONDS)

    def _builder(self) -> str:
        for builder in _BUILDERS:
            found = shutil.which(builder, path=self._settings.search_path)
            if found is not None:
                return found
        raise ClusterError("CLUSTER=current: building an image needs docker or podman")


def image_loader(context: str) -> str:
    """Which program loads images into the cluster of a context; "" if none is known."""
    if context.startswith("kind-"):
        return "kind"
    if context == "minikube":
        return "minikube"
    if context in {"default", "k3s"} and Path("/etc/rancher/k3s/k3s.yaml").exists():
        return "k3s"
    return ""
