"""The PodDisruptionBudget of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api import names
from di_api.field_error import mapping
from di_kube.resources import Resource
from di_operator.builders.metadata import object_metadata

Object = Mapping[str, Any]

BUDGETS: Final = Resource(
    group="policy", version="v1", plural="poddisruptionbudgets", kind="PodDisruptionBudget"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudgetRecipe:
    """The budget of a task, still to be built."""

    job: Object
    task: str
    available: int
    """Pods that evictions have to leave ready. Not how many may be missing: that Kubernetes
    reckons by the scale subresource of who controls the pods, and a DIJob has none."""

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.job['metadata']['name']}-{self.task}"

    def build(self) -> dict[str, Any]:
        """The budget's body."""
        selected = {
            names.LABEL_JOB: self.job["metadata"]["name"],
            names.LABEL_TASK_NAME: self.task,
        }
        return {
            "apiVersion": BUDGETS.api_version,
            "kind": BUDGETS.kind,
            "metadata": object_metadata(self.job, self.name),
            "spec": {
                "minAvailable": self.available,
                "selector": {"matchLabels": selected},
                # A pod that does not run does not hold up the drain of its node.
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }

    def changes(self, found: Object) -> dict[str, Any] | None:
        """The merge patch that makes a budget as it is to be; None if it is."""
        wanted, present = self.build()["spec"], mapping(found.get("spec"))
        changed = {key: value for key, value in wanted.items() if present.get(key) != value}
        if "selector" in changed:
            # A merge would leave what somebody has added, and be wanted again.
            changed["selector"] = _without_others(
                mapping(present.get("selector")), wanted["selector"]
            )
        # Only one of the two may be there (policy/v1).
        if "maxUnavailable" in present:
            changed["maxUnavailable"] = None
        return {"spec": changed} if changed else None


def _without_others(present: Object, wanted: Object) -> dict[str, Any]:
    """The merge patch of a selector, in which all that is not wanted is taken away."""
    labels = dict.fromkeys(mapping(present.get("matchLabels")).keys())
    return {**dict.fromkeys(present), "matchLabels": {**labels, **wanted["matchLabels"]}}
