"""The requests that the webhook reviews: `rules` and `matchConditions` of both configurations."""

from __future__ import annotations

from typing import Any, Final

from di_api.names import (
    ANNOTATION_CHANGED_BY,
    CLUSTER_JOB_TEMPLATE_PLURAL,
    GROUP,
    JOB_TEMPLATE_PLURAL,
    LABEL_QUEUE,
    PLURAL,
    SWEEP_PLURAL,
    VERSION,
)

ADMISSION_RULES: Final[list[dict[str, Any]]] = [
    # Not their status, which the operator writes, and no pods.
    {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "resources": [PLURAL, JOB_TEMPLATE_PLURAL, SWEEP_PLURAL],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    },
]
CLUSTER_RULES: Final[list[dict[str, Any]]] = [
    *ADMISSION_RULES,
    {**ADMISSION_RULES[0], "resources": [CLUSTER_JOB_TEMPLATE_PLURAL], "scope": "Cluster"},
]
"""The rules of a release for all namespaces. One for a namespace must not judge objects of the
cluster, which the selector of its namespace does not leave out.
"""

"""The rules in the form that the API server returns. The chart renders the same rules if the
operator does not publish them; a test compares both.
"""

_JUDGED: Final = (
    ".?spec",
    f".metadata.?labels[?'{LABEL_QUEUE}']",
    f".metadata.?annotations[?'{ANNOTATION_CHANGED_BY}']",
)
"""CEL: the parts of a job that admission judges or fills in when they change."""
_OWNED: Final = (
    "object.metadata.?managedFields.orValue([]).exists(entry, "
    "has(entry.fieldsV1) && 'f:spec' in entry.fieldsV1 && 'f:tasks' in entry.fieldsV1['f:spec'])"
)
"""CEL: whether a field manager owns the tasks of a job; admission removes that ownership."""
MATCH_CONDITIONS: Final[list[dict[str, str]]] = [
    {
        "name": "judged-part-changes",
        "expression": " || ".join(
            (
                "oldObject == null",
                *(f"object{part} != oldObject{part}" for part in _JUDGED),
                _OWNED,
            )
        ),
    }
]
"""Conditions that exclude changes of anything else, such as labels: a slow or unreachable webhook
does not block them. The API server compares the stored version with defaults. The chart has the
same conditions.
"""
