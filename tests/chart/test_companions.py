"""What jobs may bring along: roles, settings and policies from one list of kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.companions import BUILT_IN, CompanionKind
from di_operator.config import load_config as load_operator_config
from di_webhook.config import load_config as load_webhook_config
from tests.chart.chart import GIVEN_SECRETS, Chart, Refused, Rendered
from tests.chart.test_rbac import JOBS_OF_THE_OPERATOR, permissions

OTHERS = (
    {"apiVersion": "v1", "kind": "ConfigMap", "resource": "configmaps"},
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "resource": "resourceclaimtemplates",
    },
    {"apiVersion": "x.org/v1", "kind": "Pool", "resource": "pools"},
    {"apiVersion": "x.org/v2beta1", "kind": "Pond", "resource": "ponds"},
)


def values(*kinds: Any) -> str:
    """For helm's --set: commas and braces are its own."""
    return ",".join(
        f"companions.kinds[{index}].{field}={value}"
        for index, kind in enumerate(kinds)
        for field, value in kind.items()
    )


def settings(rendered: Rendered) -> list[tuple[CompanionKind, ...]]:
    """As the operator and the webhook read them."""
    operator = rendered.one("ConfigMap", "di-operator")["data"]
    webhook = rendered.one("ConfigMap", "di-webhook")["data"]
    environment = {**operator, "DI_OPERATOR_NAMESPACE": "di-system"}
    return [
        load_operator_config([], environment, random_identity=str).companion_kinds,
        load_webhook_config([], webhook).companion_kinds,
    ]


def guarded(rendered: Rendered) -> dict[str, set[str]]:
    """Resources that the operator makes for jobs alone, by group; not DIJobTasks and Workloads, of
    which it does the same."""
    policy = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-operator-objects")
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    found: dict[str, set[str]] = {}
    for rule in rules:
        assert "CREATE" in rule["operations"]
        if rule["resources"] in (["dijobtasks"], ["workloads"]):
            continue
        found.setdefault(rule["apiGroups"][0], set()).update(rule["resources"])
    return found


@pytest.mark.proves("operations.md#values/companions-kinds")
def test_default_companions_are_config_maps_and_claims(chart: Chart) -> None:
    rendered = chart.render()
    for kinds in settings(rendered):
        assert [str(kind) for kind in kinds] == ["ConfigMap (v1)", "PersistentVolumeClaim (v1)"]
    assert guarded(rendered) == {
        "": {"pods", "services", "configmaps", "persistentvolumeclaims"},
        "policy": {"poddisruptionbudgets"},
    }


@pytest.mark.proves("operations.md#values/companions-kinds")
def test_role_and_policy_follow_the_companion_kinds(chart: Chart) -> None:
    rendered = chart.render(values(*OTHERS), "watchNamespace=team", *GIVEN_SECRETS)
    found = permissions(rendered, "di-operator")["team"]
    plain = {k: v for k, v in JOBS_OF_THE_OPERATOR.items() if k != "persistentvolumeclaims"}
    assert {key: verbs for key, verbs in found.items() if "leases" not in key} == {
        **{key: verbs for key, verbs in plain.items() if "leases" not in key},
        "resourceclaimtemplates.resource.k8s.io": "create get",
        "pools.x.org": "create get",
        "ponds.x.org": "create get",
    }
    for kinds in settings(rendered):
        assert [kind.resource for kind in kinds] == [each["resource"] for each in OTHERS]
    assert guarded(chart.render(values(*OTHERS))) == {
        "": {"pods", "services", "configmaps"},
        "resource.k8s.io": {"resourceclaimtemplates"},
        "x.org": {"pools", "ponds"},
        "policy": {"poddisruptionbudgets"},
    }


def test_without_companion_kinds_none_is_allowed(chart: Chart) -> None:
    rendered = chart.render("companions.kinds=null")
    assert settings(rendered) == [(), ()]
    plain = {k: v for k, v in JOBS_OF_THE_OPERATOR.items() if k != "persistentvolumeclaims"}
    assert plain.items() <= permissions(rendered, "di-operator")["*"].items()
    assert "persistentvolumeclaims" not in permissions(rendered, "di-operator")["*"]


@pytest.mark.parametrize(("group_and_kind", "resource"), BUILT_IN.items(), ids=str)
def test_each_built_in_kind_can_be_allowed(
    chart: Chart, group_and_kind: tuple[str, str], resource: str
) -> None:
    group, kind = group_and_kind
    version = f"{group}/v1" if group else "v1"
    one = {"apiVersion": version, "kind": kind, "resource": resource}
    for kinds in settings(chart.render(values(one))):
        assert [json.loads(json.dumps(each.resource)) for each in kinds] == [resource]


@pytest.mark.parametrize(
    ("api_version", "kind", "resource"),
    [
        ("v1", "Secret", "secrets"),
        ("v1", "Pod", "pods"),
        ("v1", "Service", "services"),
        ("v1", "ServiceAccount", "serviceaccounts"),
        ("v1", "ConfigMap", "secrets"),
        ("apps/v1", "Deployment", "deployments"),
        ("batch/v1", "Job", "jobs"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
        ("resource.k8s.io/v1", "ResourceClaim", "resourceslices"),
        ("diengine.opendilab.org/v2alpha1", "DIJob", "dijobs"),
        ("x.org/v1", "Pool", "pools/status"),
        ("x.org/v1", "Pool", "*"),
        ("*/v1", "Pool", "pools"),
    ],
)
def test_companion_kinds_that_extend_rights_are_refused(
    chart: Chart, api_version: str, kind: str, resource: str
) -> None:
    one = {"apiVersion": api_version, "kind": kind, "resource": resource}
    with pytest.raises(Refused, match="companions"):
        chart.render(values(one))
