"""`spec.checkpoint`: where learners store checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, Text, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The directory of a job's checkpoints, and the time for learners to write the last one."""

    volume: Annotated[
        str | None,
        Declared(
            kind=Label("volume"),
            about="Name of the one of `volumes` that checkpoints are in.",
            absent="`volume` or `persistentVolumeClaim` is required",
        ),
    ] = None
    persistent_volume_claim: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Name of the PersistentVolumeClaim that checkpoints are in, in place of "
            "`volume`.",
        ),
    ] = None
    path: Annotated[
        str,
        Declared(
            kind=Text(),
            about="Where the containers of learners find it, as `DI_CHECKPOINT_DIR`.",
        ),
    ] = "/checkpoint"
    grace_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Seconds that a learner has from its SIGTERM to write its last checkpoint; "
            "`terminationGracePeriodSeconds` of a template goes before.",
        ),
    ] = 30
