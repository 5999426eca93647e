"""The custom resource definition of DIJobs for an API server with a conversion webhook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_conversion(
    definition: Mapping[str, Any], client_config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the definition with every version served, converted by the webhook at `client_config`.

    The definition in the file serves only the stored version: without a conversion the API server
    would return jobs of one version as if they were of another.
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
