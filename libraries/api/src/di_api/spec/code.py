"""`spec.code`: the program of a job, in a ConfigMap or on a claim in place of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import Text, Whole

CODE_VOLUME: Final = "di-code"
"""Name of the volume with the unpacked files of `spec.code`."""
CODE_BUNDLE_VOLUME: Final = "di-code-bundle"
"""Name of the volume of the ConfigMap with the bundle."""
CODE_BUNDLE_DIR: Final = "/var/run/di-code"
"""Directory of the bundle in CODE_CONTAINER."""
CODE_BUNDLE_KEY: Final = "bundle.tar.gz"
"""Key of the bundle in the ConfigMap's `binaryData`."""
MOST_CODE_PARTS: Final = 12
"""ConfigMaps of one bundle."""
CODE_FOLDER: Final = "di-code"
"""Folder of a claim with the bundles of all jobs of a namespace, each in a folder by its hash."""
LABEL_CODE_STORE: Final = "diengine/code-store"
"""Label of a claim: `true` if bundles that ConfigMaps cannot hold are kept there; also of the
ConfigMap of such a bundle."""
CODE_FILES_KEY: Final = "files.json.gz"
"""Key of the ConfigMap's `binaryData` with the files of a bundle that is on a claim."""
CODE_PACKAGES: Final = ".di-packages"
"""Directory below `spec.code.path` on PYTHONPATH, for what pip installs and the fallbacks."""
CODE_FALLBACK: Final = ".di-fallback"
"""Directory in the bundle with packages for images that lack them, such as `di_orchestrator`."""
ANNOTATION_CODE_SOURCE: Final = "diengine/code-source"
"""Annotation of the ConfigMap: whether `di submit` took a `program` or a `folder`."""
ANNOTATION_CODE_HASH: Final = "diengine/code-sha256"
"""Annotation of the ConfigMap of a bundle on a claim: its hash."""
LABEL_CODE_OF: Final = "diengine/code-of"
"""Label of the ConfigMap: the name of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A bundle of source files, unpacked in each pod before its program starts."""

    config_map: Annotated[
        str,
        Declared(
            kind=Text(),
            about="Name of the ConfigMap in the job's namespace whose `binaryData` has the bundle, "
            "with the key `bundle.tar.gz`.",
            more="`di submit` and `di push` write it. [How](../how-to/own-code.md).",
            may_change=True,
        ),
    ]
    sha256: Annotated[
        str,
        Declared(
            kind=Text(longest=64),
            about="SHA-256 of the uncompressed bundle, 64 hexadecimal digits. A pod with another "
            "bundle does not start.",
            may_change=True,
        ),
    ]
    parts: Annotated[
        int | None,
        Declared(
            kind=Whole(1, MOST_CODE_PARTS),
            about="Number of ConfigMaps that have the bundle, one after another: `configMap`, then "
            "`configMap` with `.2`, `.3` and so on behind its name.",
            absent="one",
            may_change=True,
        ),
    ] = None
    persistent_volume_claim: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Name of the claim that has the bundle, as `di-code/SHA256/bundle.tar.gz`. The "
            "ConfigMap then has the names of its files.",
            absent="the ConfigMap has the bundle",
            may_change=True,
        ),
    ] = None
    path: Annotated[
        str,
        Declared(
            kind=Text(),
            about="Directory of the files in each container, and the working directory of the "
            "task's container unless its template sets one.",
        ),
    ] = "/code"
    requirements: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="File of the bundle with Python requirements, which pip installs in each pod.",
            absent="nothing is installed",
            may_change=True,
        ),
    ] = None
    revision: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Git commit of the files, shown without any effect.",
            may_change=True,
        ),
    ] = None

    @property
    def identity(self) -> str:
        """Return a text that differs between two codes whose pods differ."""
        return f"{self.sha256} {self.requirements or ''}".strip()

    @property
    def folder(self) -> str:
        """Return the folder of the bundle on its claim."""
        return f"{CODE_FOLDER}/{self.sha256}"
