"""The definition of DIJobs for an API server that has a webhook to convert them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_conversion(
    definition: Mapping[str, Any], client_config: Mapping[str, Any]
) -> dict[str, Any]:
    """The definition with every version served, converted by the webhook at `client_config`.

    As it stands in its file the definition serves the stored version only: without a conversion
    the API server would show jobs of one version as if they were of another.
    """
    spec = definition["spec"]
    return {
        **definition,
        "spec": {
            **spec,
            "versions": [{**version, "served": True} for version in spec["versions"]],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": dict(client_config),
                },
            },
        },
    }
