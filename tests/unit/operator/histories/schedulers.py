"""Objects for schedulers and autoscalers, and objects that jobs bring along; none is watched."""

from __future__ import annotations

from random import Random
from typing import Final

from di_api.companions import CompanionKind
from di_kube.resources import CONFIGMAPS
from di_operator.builders.disruption_budget import BUDGETS
from di_operator.builders.provisioning import REQUESTS, TEMPLATES
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import CLAIMS, NAMESPACE, RESOURCES, WatchedApi, copied

COMPANION_KINDS: Final = tuple(
    CompanionKind(api_version="v1", kind=each.kind, resource=each.plural)
    for each in (CLAIMS, CONFIGMAPS)
)
UNWATCHED: Final = ("PodGroup", BUDGETS.kind, REQUESTS.kind, TEMPLATES.kind, CLAIMS.kind)
_FAILED: Final = [{"type": "Failed", "status": "True", "message": "no such machines"}]
_PROVISIONED: Final = [{"type": "Provisioned", "status": "True"}]


def provision_some(api: WatchedApi, random: Random) -> None:
    """Provide the nodes of some of the ProvisioningRequests, as an autoscaler does."""
    for name, body in [*api.stored(REQUESTS.kind).items()]:
        if "status" not in body and random.random() < 0.5:
            _set_conditions(api, name, _PROVISIONED)


def fail_requests(api: WatchedApi) -> None:
    """Refuse the nodes of all ProvisioningRequests that wait."""
    for name, body in [*api.stored(REQUESTS.kind).items()]:
        if "status" not in body:
            _set_conditions(api, name, _FAILED)


def delete_failed_requests(api: WatchedApi) -> None:
    """Delete the ProvisioningRequests that have failed, as a user does who wants others."""
    for name, body in [*api.stored(REQUESTS.kind).items()]:
        if (body.get("status") or {}).get("conditions") == _FAILED:
            api.request_deletion(REQUESTS.kind, name)


def edit_objects(api: WatchedApi) -> None:
    """Change the minimum of PodGroups and budgets."""
    for kind in ("PodGroup", BUDGETS.kind):
        for body in api.all(kind):
            changed = {"minMember": 77} if kind == "PodGroup" else {"minAvailable": 77}
            body["spec"] |= changed
            api.put(RESOURCES[kind], NAMESPACE, body)


def _set_conditions(api: WatchedApi, name: str, conditions: list[Object]) -> None:
    body = copied(api.stored(REQUESTS.kind)[name])
    api.put(REQUESTS, NAMESPACE, {**body, "status": {"conditions": conditions}})
