"""The CRD's rules that relate fields of a spec to each other: a part of those of the library.

Only what a rule can say within the cost that the API server allows. Of all tasks it takes one
value, so it does not ratchet within them: a bound that older jobs may pass is asked of new jobs
(`optionalOldSelf`) and of those that grow.
"""

from __future__ import annotations

from typing import Any, Final

from di_api.spec.bounds import MAX_PODS
from di_api.spec.task import TaskType

Rule = dict[str, Any]

_PODS: Final = (
    "map(t, has(t.maxReplicas) && t.maxReplicas > t.replicas ? t.maxReplicas : t.replicas).sum()"
)
_TOO_MANY: Final = (
    f"a job may have {MAX_PODS} pods, of each task the larger of replicas and maxReplicas "
    "counted; lower some, or make it several jobs"
)

OF_SPEC: Final[list[Rule]] = [
    {
        "rule": "has(self.tasks) != has(self.coordinated)",
        "message": "exactly one of tasks and coordinated must be given",
    }
]
OF_TASKS: Final[list[Rule]] = [
    *(
        {
            "rule": f"self.filter(t, t.type == '{kind.value}').size() <= 1",
            "message": f"a job has at most one task of type {kind.value}",
        }
        for kind in TaskType
        if kind is not TaskType.NONE
    ),
    {
        "rule": "self.all(t, self.exists_one(u, "
        "(has(u.name) ? u.name : u.type) == (has(t.name) ? t.name : t.type)))",
        "message": "names of tasks must be unique",
    },
    {
        "rule": f"oldSelf.hasValue() || self.{_PODS} <= {MAX_PODS}",
        "optionalOldSelf": True,
        "message": _TOO_MANY,
    },
    {
        "rule": f"self.{_PODS} <= {MAX_PODS} || self.{_PODS} <= oldSelf.{_PODS}",
        "message": _TOO_MANY,
    },
]
OF_TASK: Final[list[Rule]] = [
    {
        "rule": "self.type != 'none' || has(self.name)",
        "message": "a task of type none needs a name",
        "fieldPath": ".name",
    },
    {
        "rule": "(!has(self.minReplicas) || self.minReplicas <= self.replicas) && "
        "(!has(self.maxReplicas) || self.replicas <= self.maxReplicas)",
        "message": "must be between minReplicas and maxReplicas",
        "fieldPath": ".replicas",
    },
    {
        "rule": "!has(self.dependsOn) || "
        "!((has(self.name) ? self.name : self.type) in self.dependsOn)",
        "message": "a task cannot wait for itself",
        "fieldPath": ".dependsOn",
    },
]
