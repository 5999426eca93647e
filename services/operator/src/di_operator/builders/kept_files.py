"""Volumes and variables of files that outlive pods: checkpoints and artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from di_api import names
from di_api.field_error import mapping
from di_api.spec import MAX_INT64, Artifact, Checkpoint
from di_api.spec.artifact import artifacts_folder, artifacts_volume
from di_operator.builders.containers import with_environment, with_volumes

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The location of a learner's checkpoints; empty for other pods, and for jobs without
    checkpoints.
    """

    spec: Checkpoint | None = None
    step: int | None = None
    """Step of the last checkpoint that the job reported; None: the job reported none."""

    @classmethod
    def of(cls, spec: Checkpoint | None, job: Object) -> Checkpoints:
        """Return the checkpoints of a job's learners, from its spec and its reported status."""
        return cls(spec=spec, step=_reported_step(job) if spec else None)

    def environment(self) -> dict[str, str]:
        """Return the variables with the directory of checkpoints and the last step."""
        if self.spec is None:
            return {}
        step = {} if self.step is None else {names.ENV_RESTORE_STEP: str(self.step)}
        return {names.ENV_CHECKPOINT_DIR: self.spec.path, **step}

    def volumes(self) -> list[dict[str, Any]]:
        """Return the volume, or nothing if it is one of the job's own volumes."""
        claim = self.spec.persistent_volume_claim if self.spec else None
        if claim is None:
            return []
        source = {"claimName": claim}
        return [{"name": names.CHECKPOINT_VOLUME, "persistentVolumeClaim": source}]

    def mounts(self) -> list[dict[str, Any]]:
        """Return the mount of the volume."""
        if self.spec is None:
            return []
        name = self.spec.volume or names.CHECKPOINT_VOLUME
        return [{"name": name, "mountPath": self.spec.path}]

    def grace(self, pod: Object) -> dict[str, Any]:
        """Return the grace period for a pod spec, or nothing if the spec sets one."""
        if self.spec is None or pod.get("terminationGracePeriodSeconds") is not None:
            return {}
        return {"terminationGracePeriodSeconds": self.spec.grace_seconds}


def with_artifacts(body: dict[str, Any], artifacts: Sequence[Artifact]) -> dict[str, Any]:
    """Return a pod with the artifacts of its task, each in a folder of the pod; without them
    unchanged. The owner of the pod is the job.

    A claim that the pod already has as a volume is not added again, because a pod with two volumes
    of one claim can fail to start.
    """
    name, task = body["metadata"]["name"], body["metadata"]["labels"].get(names.LABEL_TASK_NAME)
    found = [each for each in artifacts if not each.tasks or task in each.tasks]
    if not found:
        return body
    spec: Object = body["spec"]
    (owner,) = body["metadata"]["ownerReferences"]
    claims = {
        claim: str(each["name"]) for each in spec.get("volumes") or () if (claim := _claim(each))
    }
    added: list[Object] = []
    mounts: list[Object] = []
    for each in found:
        claim = each.persistent_volume_claim
        if claim and claim not in claims:
            claims[claim] = artifacts_volume(len(added))
            source = {"persistentVolumeClaim": {"claimName": claim}}
            added.append({"name": claims[claim], **source})
        folder = artifacts_folder(owner["name"], owner["uid"], each.name)
        volume = claims[claim] if claim else each.volume
        mounts.append({"name": volume, "mountPath": each.path, "subPath": f"{folder}/{name}"})
    env = {names.ENV_ARTIFACTS_DIR: found[0].path}
    containers = {
        kind: [with_environment(each, env, mounts) for each in spec[kind]]
        for kind in ("initContainers", "containers")
        if spec.get(kind)
    }
    volumes = with_volumes(spec.get("volumes") or (), added)
    return {**body, "spec": {**spec, **containers, "volumes": volumes}}


def _claim(volume: Object) -> str | None:
    """Return the claim that a volume makes writable."""
    found = mapping(volume.get("persistentVolumeClaim"))
    return found.get("claimName") if found.get("readOnly") is not True else None


def _reported_step(job: Object) -> int | None:
    # Programs can report anything: a value that is not a step is ignored.
    step = mapping(mapping(job.get("status")).get("profilings")).get(names.REPORTED_STEP)
    if isinstance(step, bool) or not isinstance(step, int | float):
        return None
    return int(step) if 0 <= step <= MAX_INT64 and step == int(step) else None
