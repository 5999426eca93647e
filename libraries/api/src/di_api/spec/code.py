"""`spec.code`: the program of a job, in a ConfigMap or on a claim in place of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from di_api.code_names import CODE_FOLDER, MOST_CODE_PARTS
from di_api.spec.declared import Declared
from di_api.spec.kinds import Text, Whole


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
