"""Building images with buildah, without a daemon and without a registry."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from di_cluster import preflight
from di_cluster.builds.archive import ImageConfig, write_archive, write_node_images
from di_cluster.builds.fingerprint import fingerprint
from di_cluster.builds.rootfs import build_rootfs, parse_packages, recipe
from di_cluster.commands import run
from di_cluster.errors import ClusterError, CommandFailed
from di_cluster.reporter import Reporter
from di_cluster.workfolder import lock_file, write_json

BASE_PACKAGES = "base-packages.txt"
_BUILD_SECONDS = 1800
_LOCK_SECONDS = 1800
_ARCHIVE_SECONDS = 3600
_NODE_LOCK_SECONDS = 60
_APT_SOURCES = (
    *(Path("/var/lib/apt/lists"), Path("/etc/apt/sources.list")),
    *(Path("/etc/apt/sources.list.d"), Path("/etc/apt/preferences.d")),
)
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A built image: its full reference and the hexadecimal id of its content."""

    reference: str
    image_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an image is built of: a folder with its Dockerfile, and the name that it gets."""

    context: Path
    tag: str
    dockerfile: Path


def full_reference(tag: str) -> str:
    """The reference that Kubernetes finds a locally built image under.

    A name without a registry would be taken for one of docker.io.
    """
    repository, _, last = tag.rpartition("/")
    first = repository.split("/", maxsplit=1)[0]
    named = tag if ":" in last else f"{tag}:latest"
    has_registry = repository != "" and ("." in first or ":" in first or first == "localhost")
    return named if has_registry else f"localhost/{named}"


class ImageStore:
    """Images of this machine, kept in the cache."""

    def __init__(self, folder: Path, *, reporter: Reporter) -> None:
        self._folder = folder
        self._reporter = reporter

    def build(
        self,
        context: Path,
        *,
        tag: str,
        dockerfile: Path | None = None,
        build_args: Mapping[str, str] | None = None,
    ) -> Image:
        """Build an image, unless it was built of the same before.

        `BASE_IMAGE` is the local base image unless it is among the build arguments; only then is
        an image pulled from a registry. A file `base-packages.txt` beside the Dockerfile names
        Debian packages that the local base image has besides Python.

        Args:
            context: the build context.
            tag: the image's name; "localhost/" is put before one without a registry.
            dockerfile: the Dockerfile, by default the context's.
            build_args: values of the Dockerfile's ARGs.

        Raises:
            ClusterError: the build fails, with the end of its output, or `base-packages.txt` is
                wrong.
        """
        arguments = dict(build_args or {})
        reference = full_reference(tag)
        pull, inputs = "--pull", None
        packages: tuple[str, ...] = ()
        if "BASE_IMAGE" not in arguments:
            file = dockerfile or context / "Dockerfile"
            packages = base_packages(file)
            arguments["BASE_IMAGE"] = base_reference(self._python_version(), packages)
            inputs = fingerprint(context, file, arguments)
            pull = "--pull-never"
        # Without the lock: another checkout may build for half an hour.
        if (known := self._known(reference, inputs)) is not None:
            return known
        with lock_file(self._folder / ".lock", seconds=_LOCK_SECONDS):
            # The one that held the lock may have built it.
            if (known := self._known(reference, inputs)) is not None:
                return known
            if pull == "--pull-never":
                self._ensure_base(arguments["BASE_IMAGE"], packages)
            with self._reporter.step(f"built image {reference}"):
                try:
                    self._buildah(
                        *("bud", "--isolation", "chroot", "--network", "host", pull),
                        # The same sources give the same image id, so that nothing is loaded again.
                        *("--layers", "--timestamp", "0"),
                        *(f"--build-arg={name}={value}" for name, value in arguments.items()),
                        *(("-f", dockerfile) if dockerfile is not None else ()),
                        *("-t", reference, context),
                        seconds=_BUILD_SECONDS,
                    )
                except CommandFailed as error:
                    # An aborted build leaves its container mounted.
                    self._buildah("rm", "-a")
                    raise ClusterError(f"image {reference} cannot be built\n{error}") from error
            image = self.find(reference)
            if inputs is not None:
                write_json(self._built_path(reference, inputs), _record(image, inputs))
            return image

    def missing(self, sources: Iterable[Source]) -> list[Source]:
        """Those of the sources that have no archive, or that `build` would build.

        The machine's programs are asked once for all of them.

        Raises:
            ClusterError: `base-packages.txt` beside a Dockerfile is wrong.
        """
        try:
            listing = self._buildah("images", "--no-trunc", "--format", "{{.ID}}")
            python = self._python_version()
        except CommandFailed:
            return list(sources)
        built = {line.removeprefix("sha256:") for line in listing.split()}

        def is_there(source: Source) -> bool:
            reference = full_reference(source.tag)
            base = base_reference(python, base_packages(source.dockerfile))
            inputs = fingerprint(source.context, source.dockerfile, {"BASE_IMAGE": base})
            image = self._recorded(reference, inputs)
            return (
                image is not None and image.image_id in built and self._archive_path(image).exists()
            )

        return [source for source in sources if not is_there(source)]

    def find(self, tag: str) -> Image:
        """A built image.

        Raises:
            ClusterError: there is none of that name.
        """
        reference = full_reference(tag)
        try:
            found = self._buildah("images", "-q", "--no-trunc", reference).split()
        except CommandFailed as error:
            raise ClusterError(f"there is no image {reference}: build it first") from error
        return Image(reference=reference, image_id=found[0].removeprefix("sha256:"))

    def push(self, image: Image, destination: str, *, plain: bool) -> None:
        """Push an image to a registry.

        Args:
            image: a built one.
            destination: registry, repository and tag.
            plain: by HTTP, as a registry of this machine may want it.

        Raises:
            CommandFailed: the registry refuses it.
        """
        self._buildah(
            *("push", "-q", f"--tls-verify={'false' if plain else 'true'}"),
            *(image.image_id, f"docker://{destination}"),
            seconds=_BUILD_SECONDS,
        )

    def archive(self, image: Image) -> Path:
        """The image as a docker-archive; written once for each content."""
        path = self._archive_path(image)
        if path.exists():
            return path
        with lock_file(self._folder / ".lock", seconds=_LOCK_SECONDS):
            if path.exists():
                return path
            path.parent.mkdir(parents=True, exist_ok=True)
            for old in path.parent.glob(f"{_slug(image.reference)}@*"):
                # Another build of that name, of another source tree, may be loading it now.
                if time.time() - old.stat().st_mtime > _ARCHIVE_SECONDS:
                    old.unlink()
            temporary = path.with_suffix(".part")
            # buildah refuses to write to what a killed run has left.
            temporary.unlink(missing_ok=True)
            self._buildah(
                *("push", "-q", image.image_id),
                f"docker-archive:{temporary}:{image.reference}",
                seconds=_BUILD_SECONDS,
            )
            temporary.replace(path)
        return path

    def node_images(self) -> tuple[Path, dict[str, str]]:
        """The archive of the images that every node has, and their ids."""
        path, index = self._folder / "node.tar", self._node_index
        # A lock of its own: a cluster must come up while a long image build holds the other.
        with lock_file(self._folder / ".lock-node", seconds=_NODE_LOCK_SECONDS):
            if not index.is_file():
                ids = write_node_images(path, busybox=Path("/bin/busybox"))
                index.write_text(json.dumps(ids))
        ids = json.loads(index.read_text())
        return path, ids

    def _python_version(self) -> str:
        """The major and minor number of the Python that this machine's package sources have.

        apt-cache takes most of a second: its answer is kept until the sources change.
        """
        path, sources = self._folder / "python.json", _package_sources()
        try:
            kept = json.loads(path.read_text())
            if kept["sources"] == sources:
                return str(kept["version"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        plan = run(["apt-cache", "show", "--no-all-versions", "python3"])
        shown = next(line.split()[1] for line in plan.splitlines() if line.startswith("Version:"))
        version = ".".join(shown.split(".")[:2])
        write_json(path, {"version": version, "sources": sources})
        return version

    @property
    def has_node_images(self) -> bool:
        """Whether `node_images` has been written."""
        return self._node_index.is_file()

    @property
    def _node_index(self) -> Path:
        return self._folder / "node.json"

    def _archive_path(self, image: Image) -> Path:
        slug = _slug(image.reference)
        return self._folder / "archives" / f"{slug}@{image.image_id[:16]}.tar"

    def _known(self, reference: str, inputs: str | None) -> Image | None:
        """The image that was built of these inputs, if it still exists; it gets the name again
        that another source tree's build of the name may have taken.
        """
        image = self._recorded(reference, inputs)
        if image is None:
            return None
        try:
            names = self._buildah(
                *("images", "--no-trunc", "--format", "{{.Name}}:{{.Tag}}", image.image_id)
            )
            if reference not in names.split():
                self._buildah("tag", image.image_id, reference)
        except CommandFailed:
            return None
        self._reporter.say(f"image {reference} is built of the same")
        return image

    def _recorded(self, reference: str, inputs: str | None) -> Image | None:
        """The image that was noted when these inputs were built; None if none was."""
        if inputs is None:
            return None
        try:
            recorded = json.loads(self._built_path(reference, inputs).read_text())
            image = Image(reference=reference, image_id=str(recorded["imageId"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return image if recorded == _record(image, inputs) else None

    def _built_path(self, reference: str, inputs: str) -> Path:
        return self._folder / "built" / f"{_slug(reference)}@{inputs[:16]}.json"

    def _ensure_base(self, reference: str, packages: Sequence[str]) -> None:
        """Make the local base image with these packages on first use."""
        names = self._buildah("images", "--format", "{{.Name}}:{{.Tag}}").split()
        if reference in names:
            return
        if packages:
            # File system, layer, archive and the store's copy are there at the same time.
            preflight.require_disk(
                self._folder, free=8 * preflight.GIB, purpose=f"a base with {', '.join(packages)}"
            )
        with self._reporter.step(f"made base image {reference}"):
            layer, archive = self._folder / "base-layer.tar", self._folder / "base.tar"
            try:
                build_rootfs(layer, downloads=self._folder / "packages", extra_packages=packages)
                write_archive(
                    archive,
                    layer=layer,
                    images={
                        reference: ImageConfig(
                            environment=(_PATH, "LANG=C.UTF-8"), command=("python3",)
                        )
                    },
                )
                self._buildah("pull", "-q", f"docker-archive:{archive}", seconds=_BUILD_SECONDS)
            finally:
                layer.unlink(missing_ok=True)
                archive.unlink(missing_ok=True)

    def _buildah(self, *argv: str | Path, seconds: float = 120) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        store = self._folder / "store"
        return run(
            [
                *("buildah", "--root", store, "--runroot", self._folder / "runroot"),
                *("--storage-driver", "overlay", *argv),
            ],
            seconds=seconds,
        )


def _record(image: Image, inputs: str) -> dict[str, str]:
    """What is kept of a build: which image came of which inputs."""
    return {"imageId": image.image_id, "inputs": inputs}


def _slug(reference: str) -> str:
    """A reference as the name of a file."""
    return reference.replace("/", "_").replace(":", "_")


def base_packages(dockerfile: Path) -> tuple[str, ...]:
    """The Debian packages that a Dockerfile wants in its base; none without a list beside it.

    Raises:
        ClusterError: the list has a line that is not the name of a package.
    """
    listing = dockerfile.parent / BASE_PACKAGES
    if not listing.is_file():
        return ()
    try:
        return parse_packages(listing.read_text())
    except ClusterError as error:
        raise ClusterError(f"{listing}: {error}") from error


def base_reference(python: str, packages: Sequence[str] = ()) -> str:
    """The name of the base image made from this machine's Debian packages.

    It changes with the recipe, so that an image of an earlier one is not taken for it.

    Args:
        python: the major and minor number of the packages' Python.
        packages: what the image has besides Python.
    """
    return f"localhost/python-base:{python}-{recipe(packages)}"


def _package_sources() -> list[int]:
    """When the machine's package sources were last changed, as far as they are there."""
    return [path.stat().st_mtime_ns for path in _APT_SOURCES if path.exists()]
