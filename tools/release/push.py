"""Images and chart into a registry: `python -m tools.release.push REGISTRY DIRECTORY [--key FILE
--certificate FILE]`.

The images are those of the working tree, under the names that the chart has with
`imageRegistry=REGISTRY`; chart, bills of materials and provenance are what `make release` has put
into the directory. With a key all of it is signed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from di_cluster.builds.images import Image
from di_cluster.commands import run
from di_cluster.errors import ClusterError
from di_cluster.release import REPOSITORY, Release, image_builder
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tools.release.artifacts import PROVENANCE, RELEASE, SBOM, Artifacts, Key, signer
from tools.release.version import ROOT, present

_LOCAL: Final = ("localhost", "127.0.0.1")
_SECONDS: Final = 300


class Pushing(Protocol):
    """The part of a builder of images that is needed here."""

    def binary(self, program: str) -> Path:
        """Where a program is."""

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        """Push an image under that name."""


def push(
    target: Pushing,
    images: Mapping[str, Image],
    directory: Path,
    *,
    registry: str,
    version: str,
    key: Key | None = None,
) -> list[str]:
    """Push everything, the images and the chart first; returns where these are.

    Args:
        target: who has built the images.
        images: by service.
        directory: what `tools.release.bundle` has made.
        registry: a host, and perhaps a path below it. One of this machine is spoken to by HTTP, as
            docker does.
        version: the tag of everything.
        key: what it is signed with; None: it is not.

    Raises:
        ClusterError: the registry, or a program that speaks to it, refuses.
    """
    plain = registry.partition("/")[0].partition(":")[0] in _LOCAL
    there = Artifacts(find=target.binary, plain=plain)
    provenance = directory / "provenance.json"
    pushed, signed = [], []
    for service, image in images.items():
        destination = f"{registry}/{REPOSITORY}/di-{service}:{version}"
        target.push_image(image, destination, plain=plain)
        pushed.append(destination)
        subject = there.digest(destination)
        bill = there.attach(subject, directory / "sbom" / f"di-{service}.cdx.json", SBOM)
        signed += [subject, bill, there.attach(subject, provenance, PROVENANCE)]
    address = f"oci://{registry}/charts"
    options = ["--plain-http"] if plain else []
    chart = directory / f"di-orchestrator-{version}.tgz"
    run([target.binary("helm"), "push", chart, address, *options], seconds=_SECONDS)
    subject = there.digest(f"{registry}/charts/di-orchestrator:{version}")
    signed += [subject, there.attach(subject, provenance, PROVENANCE)]
    files = [directory / "SHA256SUMS", provenance]
    signed.append(there.push(f"{registry}/{REPOSITORY}/release:{version}", files, RELEASE))
    if key is not None:
        with signer(target.binary, key, plain=plain) as sign:
            for reference in signed:
                sign(reference)
    return [*pushed, f"{address}/di-orchestrator --version {version}"]


def main(arguments: list[str]) -> int:
    """Build the images and push everything."""
    parser = argparse.ArgumentParser(prog="tools.release.push", allow_abbrev=False)
    parser.add_argument("registry")
    parser.add_argument("directory", type=Path, help="what make release has made")
    parser.add_argument("--key", type=Path, help="private key to sign with, PEM")
    parser.add_argument("--certificate", type=Path, help="its certificate and chain, PEM")
    given = parser.parse_args(arguments)
    if (given.key is None) is not (given.certificate is None):
        parser.error("a key and its certificate go together")
    key = Key(file=given.key, certificate=given.certificate) if given.key else None
    settings, reporter = Settings.from_environment(os.environ), Reporter(sys.stderr)
    try:
        target = image_builder(settings, reporter)
        images = Release(target, root=ROOT, reporter=reporter).build_images()
        for each in push(
            target,
            images,
            given.directory,
            registry=given.registry,
            version=present(ROOT),
            key=key,
        ):
            print(each)
    except ClusterError as error:
        print(f"push: {error}", file=sys.stderr)
        return 1
    if key is None:
        print("push: nothing is signed; KEY= and CERTIFICATE= sign it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
