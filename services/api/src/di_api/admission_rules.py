"""The `rules` of the two webhook configurations: the requests that the webhook reviews."""

from __future__ import annotations

from typing import Any, Final

from di_api.names import GROUP, PLURAL, VERSION

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
