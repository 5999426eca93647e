"""The requests that the webhook reviews: `rules` and `matchConditions` of both configurations."""

from __future__ import annotations

from typing import Any, Final

from di_api.names import ANNOTATION_CHANGED_BY, GROUP, LABEL_QUEUE, PLURAL, VERSION

ADMISSION_RULES: Final[list[dict[str, Any]]] = [
    # Not dijobs/status, which the operator writes, and never pods.
    {
        "apiGroups": [GROUP],
        "apiVersions": [VERSION],
        "resources": [PLURAL],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
]
"""As the API server returns them. The chart renders the same rules where the operator does not
publish them: a test compares both."""

_JUDGED: Final = (
    ".?spec",
    f".metadata.?labels[?'{LABEL_QUEUE}']",
    f".metadata.?annotations[?'{ANNOTATION_CHANGED_BY}']",
)
"""Parts of a job that admission judges or fills in when it changes."""
_OWNED: Final = (
    "object.metadata.?managedFields.orValue([]).exists(entry, "
    "has(entry.fieldsV1) && 'f:spec' in entry.fieldsV1 && 'f:tasks' in entry.fieldsV1['f:spec'])"
)
"""That a field manager owns the tasks of a job, which admission takes from it."""
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
"""What leaves out changes of anything else, such as labels: a webhook that is slow or away does not
hold them up. The API server compares the stored version, defaults filled in. The chart has the
same."""
