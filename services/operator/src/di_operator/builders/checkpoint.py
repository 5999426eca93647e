"""What the pods of learners are given for their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_api.field_error import mapping
from di_api.spec import MAX_INT64, Checkpoint

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Of a learner where checkpoints are; of all other pods, and without any, nothing."""

    spec: Checkpoint | None = None
    step: int | None = None
    """Of the last one that the job has reported; None: of none."""

    @classmethod
    def of(cls, spec: Checkpoint | None, job: Object) -> Checkpoints:
        """Of the learners of a job, by its spec and by what it has reported."""
        return cls(spec=spec, step=_reported_step(job) if spec else None)

    def environment(self) -> dict[str, str]:
        """How containers learn where checkpoints are, and which is the last."""
        if self.spec is None:
            return {}
        step = {} if self.step is None else {names.ENV_RESTORE_STEP: str(self.step)}
        return {names.ENV_CHECKPOINT_DIR: self.spec.path, **step}

    def volumes(self) -> list[dict[str, Any]]:
        """The volume, if it is not one of the job's."""
        claim = self.spec.persistent_volume_claim if self.spec else None
        if claim is None:
            return []
        source = {"claimName": claim}
        return [{"name": names.CHECKPOINT_VOLUME, "persistentVolumeClaim": source}]

    def mounts(self) -> list[dict[str, Any]]:
        """Where containers find it."""
        if self.spec is None:
            return []
        name = self.spec.volume or names.CHECKPOINT_VOLUME
        return [{"name": name, "mountPath": self.spec.path}]

    def grace(self, pod: Object) -> dict[str, Any]:
        """The time that a pod of that spec has to end, unless it says so itself."""
        if self.spec is None or pod.get("terminationGracePeriodSeconds") is not None:
            return {}
        return {"terminationGracePeriodSeconds": self.spec.grace_seconds}


def _reported_step(job: Object) -> int | None:
    # Whatever a program reports: what is no step is none.
    step = mapping(mapping(job.get("status")).get("profilings")).get(names.REPORTED_STEP)
    if isinstance(step, bool) or not isinstance(step, int | float):
        return None
    return int(step) if 0 <= step <= MAX_INT64 and step == int(step) else None
