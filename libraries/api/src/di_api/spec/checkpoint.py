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
            about="Name of the one of `volumes` that has the checkpoints.",
            absent="`volume` or `persistentVolumeClaim` is required",
        ),
    ] = None
    persistent_volume_claim: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Name of the PersistentVolumeClaim that has the checkpoints, in place of "
            "`volume`.",
        ),
    ] = None
    path: Annotated[
        str,
        Declared(
            kind=Text(),
            about="Path at which the containers of learners mount it, also in `DI_CHECKPOINT_DIR`.",
        ),
    ] = "/checkpoint"
    grace_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Seconds between SIGTERM and SIGKILL for a learner to write its last checkpoint; "
            "`terminationGracePeriodSeconds` of a template overrides it.",
        ),
    ] = 30
