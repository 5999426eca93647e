"""`spec.artifacts`: directories of pods that outlive them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from di_api.spec.bounds import MAX_TASKS
from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, Labels, Text

USUAL: Final = {"name": "results", "path": "/results"}
"""Name and path of the artifacts of a program that is submitted without a manifest."""
MOST_ARTIFACTS: Final = 8
"""Artifacts of one job."""
ARTIFACTS_FOLDER: Final = "di-artifacts"
"""Folder of the artifacts of all jobs, at the top of a volume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A directory in each pod that is a folder of the pod's own on a volume."""

    name: Annotated[
        str,
        Declared(
            kind=Label(),
            about="Name of the folder on the volume, below the one of the job.",
        ),
    ]
    path: Annotated[
        str,
        Declared(
            kind=Text(),
            about="Path of the directory in the containers of the pods. `DI_ARTIFACTS_DIR` is that "
            "of the first item.",
        ),
    ]
    volume: Annotated[
        str | None,
        Declared(
            kind=Label("volume"),
            about="Name of the one of `volumes` that has the files.",
            absent="`volume` or `persistentVolumeClaim` is required",
        ),
    ] = None
    persistent_volume_claim: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Name of the PersistentVolumeClaim that has the files, in place of `volume`.",
        ),
    ] = None
    tasks: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of the tasks whose pods have the directory.",
            is_filled_in=False,
            absent="all pods of the job",
        ),
    ] = ()


def artifacts_volume(number: int) -> str:
    """Return the name of the volume of the claim with this number among those of artifacts."""
    return f"di-artifacts-{number}"


def artifacts_folder(job: str, uid: str, artifact: str) -> str:
    """Return the folder with an artifact of a job on its volume, with a folder for each pod.

    Another job of the same name has another folder, by its UID."""
    return f"{ARTIFACTS_FOLDER}/{job}.{uid}/{artifact}"
