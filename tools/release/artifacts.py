"""What is said of a release in its registry, beside the images: files that refer to them, and
signatures.

Files are attached by oras as referrers, as the OCI distribution specification 1.1 has them;
signatures are Notary Project's. Both programs log in as docker does (`~/.docker/config.json`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from di_cluster.commands import run

SBOM: Final = "application/vnd.cyclonedx+json"
PROVENANCE: Final = "application/vnd.in-toto+json"
RELEASE: Final = "application/vnd.di-orchestrator.release"
"""The checksums and the provenance of everything that is released as files."""
_SECONDS: Final = 300
_KEY: Final = "release"

Find = Callable[[str], Path]
"""Where a program is; raises ClusterError if it cannot be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a release is signed with: PEM files, which are read where they are and copied nowhere.

    Attributes:
        file: the private key.
        certificate: for code signing, with the chain that leads to its authority, the leaf first.
    """

    file: Path
    certificate: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """A registry, by oras.

    Attributes:
        find: where oras is.
        plain: whether it is spoken to by HTTP.
    """

    find: Find
    plain: bool

    def digest(self, reference: str) -> str:
        """The reference by digest of what has a tag now.

        Raises:
            ClusterError: the registry refuses, or has no such thing.
        """
        found = self._oras("resolve", reference).split()[-1]
        return f"{_untagged(reference)}@{found}"

    def attach(self, subject: str, file: Path, kind: str) -> str:
        """Have a file refer to a subject; returns its reference by digest. Raises ClusterError."""
        words = ("attach", "--artifact-type", kind, subject, f"{file.name}:{kind}")
        return self._made(words, file.parent)

    def push(self, reference: str, files: Sequence[Path], kind: str) -> str:
        """Push files of one folder as an artifact; the same return, the same error."""
        names = (file.name for file in files)
        return self._made(("push", "--artifact-type", kind, reference, *names), files[0].parent)

    def _made(self, words: Sequence[str], folder: Path) -> str:
        said = self._oras(*words, "--format", "json", folder=folder)
        return str(json.loads(said[said.index("{") :])["reference"])

    def _oras(self, *words: str, folder: Path | None = None) -> str:
        options = ["--plain-http"] if self.plain else []
        return run([self.find("oras"), *words, *options], cwd=folder, seconds=_SECONDS)


@contextmanager
def signer(find: Find, key: Key, *, plain: bool) -> Iterator[Callable[[str], None]]:
    """What signs a reference by digest. It raises ClusterError where the key is no good, or the
    registry refuses."""
    named = {
        "name": _KEY,
        "keyPath": str(key.file.absolute()),
        "certPath": str(key.certificate.absolute()),
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "notation"
        settings.mkdir()
        (settings / "signingkeys.json").write_text(json.dumps({"default": _KEY, "keys": [named]}))
        environment = {**os.environ, "XDG_CONFIG_HOME": folder}
        options = ["--insecure-registry"] if plain else []

        def sign(reference: str) -> None:
            run(
                [find("notation"), "sign", "--key", _KEY, *options, reference],
                environment=environment,
                seconds=_SECONDS,
            )

        yield sign


def _untagged(reference: str) -> str:
    name, _, tag = reference.rpartition(":")
    return name if "/" not in tag else reference
