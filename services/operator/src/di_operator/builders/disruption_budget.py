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
    """The PodDisruptionBudget of a task that is not built yet."""

    job: Object
    task: str
    available: int
    """Pods that must stay ready during evictions (`minAvailable`). `maxUnavailable` does not work:
    Kubernetes computes it from the scale subresource of the pods' controller, and a DIJob has none.
    """

    @property
    def name(self) -> str:
        """Return the object's name."""
        return f"{self.job['metadata']['name']}-{self.task}"

    def build(self) -> dict[str, Any]:
        """Return the budget's body."""
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
                # A pod that does not run must not block the drain of its node.
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }

    def changes(self, found: Object) -> dict[str, Any] | None:
        """Return the merge patch that brings an existing budget up to date; None if it is up to
        date.
        """
        wanted, present = self.build()["spec"], mapping(found.get("spec"))
        changed = {key: value for key, value in wanted.items() if present.get(key) != value}
        if "selector" in changed:
            # A plain merge would keep what another client added, and the patch would be wanted
            # again.
            changed["selector"] = _without_others(
                mapping(present.get("selector")), wanted["selector"]
            )
        # policy/v1 allows only one of the two fields.
        if "maxUnavailable" in present:
            changed["maxUnavailable"] = None
        return {"spec": changed} if changed else None


def _without_others(present: Object, wanted: Object) -> dict[str, Any]:
    """Return the merge patch of a selector that also removes everything that is not wanted."""
    labels = dict.fromkeys(mapping(present.get("matchLabels")).keys())
    return {**dict.fromkeys(present), "matchLabels": {**labels, **wanted["matchLabels"]}}
