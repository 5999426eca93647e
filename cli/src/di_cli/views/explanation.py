"""An explanation for programs."""

from __future__ import annotations

from typing import Any

from di_api.explain import Explanation


def as_object(found: Explanation) -> dict[str, Any]:
    """Return cause, sentence, evidence and remedy."""
    return {
        "cause": found.cause.value,
        "summary": found.summary,
        "evidence": [
            {
                "label": each.label,
                "text": each.text,
                **({"at": each.at.isoformat()} if each.at else {}),
            }
            for each in found.evidence
        ],
        "remedy": found.remedy,
    }
