"""The review of a user's permission by the API server."""

from __future__ import annotations

from di_api.field_error import mapping
from di_kube.errors import ApiError
from di_kube.resources import SELF_ACCESS_REVIEWS
from di_kube.sync import SyncKubeClient


def refusal(client: SyncKubeClient, **wanted: str) -> str | None:
    """Return why a request is not permitted, or an empty text for no reason; None: it is permitted.

    A failed review counts as permission: the request itself has the better error then.

    Args:
        wanted: verb, resource and other fields of a SelfSubjectAccessReview's
            resourceAttributes.
    """
    body = {
        "apiVersion": SELF_ACCESS_REVIEWS.api_version,
        "kind": SELF_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": wanted},
    }
    try:
        status = mapping(client.create(SELF_ACCESS_REVIEWS, body).get("status"))
    except ApiError:
        return None
    return str(status.get("reason") or "") if status.get("allowed") is False else None
