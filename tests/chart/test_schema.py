"""Values that mean nothing are refused before anything is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.chart import CHART, Chart, Refused

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
# Kubernetes' own free-form maps, and what a parent chart hands down.
FREE = {
    "global",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
    "template",
    "valueFrom",
    "items",
}


def objects(schema: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a JSON object with the name it goes by."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield name, schema
        for key, value in schema.items():
            yield from objects(value, key)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value, name)


def test_no_object_of_the_schema_takes_unknown_keys() -> None:
    loose = {name for name, schema in objects(SCHEMA) if "additionalProperties" not in schema}
    assert loose <= FREE
    closed = [schema for _, schema in objects(SCHEMA) if "properties" in schema]
    assert all(schema["additionalProperties"] is False for schema in closed)


@pytest.mark.parametrize(
    "value",
    [
        "unknown=1",
        "webhook.replica=2",
        "operator.image.repo=x",
        "server.pdb.minAvailable=1",
        "server.auth.modus=off",
        "admissionPolicies.on=true",
        "admissionPolicies.jobs=true",
        "crds.install=true",
        "certificates.issuer.names=x",
        "webhook.extraEnv[0].nam=X",
        "webhook.tolerations[0].keys=x",
        "webhook.resources.limit=1",
        "webhook.replicas=two",
        "webhook.replicas=-1",
        "operator.enabled=perhaps",
        "operator.logLevel=DEBUG",
        "operator.syncPeriodSeconds=0",
        "operator.jobMetrics=-1",
        "server.auth.mode=maybe",
        "server.tls.port=1",
        "server.tls.secretName=A_b",
        "server.plainHTTP.enabled=perhaps",
        "server.limits.refusals=1",
        "server.limits.lookupRate=0",
        "certificates.mode=manual",
        "certificates.caBundle=abc",
        "server.image.digest=sha256:abc",
        "server.image.pullPolicy=Sometimes",
        "server.pdb.maxUnavailable=101%",
        "watchNamespace=Team_A",
        "serviceDomain=.svc.cluster.local",
        "test.timeoutSeconds=1",
    ],
)
def test_a_bad_value_is_refused_with_its_key(chart: Chart, value: str) -> None:
    path = value.partition("=")[0].partition("[")[0]
    with pytest.raises(Refused) as refused:
        chart.render(value)
    # The message leads to the key: its own name, or its parent's and the unknown name.
    assert path.rpartition(".")[2] in str(refused.value)


@pytest.mark.parametrize(
    ("values", "way_out"),
    [
        (("watchNamespace=team",), "rbac.allowClusterRoles=true"),
        (("watchNamespace=team", "webhook.enabled=false", "server.auth.mode=required"), "optional"),
        (("operator.enabled=false",), "certificates.mode=existingSecret"),
        (("operator.enabled=false", "webhook.enabled=false"), "server.tls.enabled=false"),
        (("certificates.mode=existingSecret",), "server.tls.secretName"),
        (("server.tls.enabled=false", "server.plainHTTP.enabled=false"), "server.enabled=false"),
    ],
    ids=[
        "publishing an authority without a cluster role",
        "checking tokens without a cluster role",
        "a certificate that nobody makes",
        "one of the server that nobody makes",
        "a Secret of yours that nobody named",
        "a server without a port",
    ],
)
def test_contradicting_values_are_refused_with_a_way_out(
    chart: Chart, values: tuple[str, ...], way_out: str
) -> None:
    with pytest.raises(Refused, match=way_out):
        chart.render(*values)


@pytest.mark.proves("operations.md#values/operator-allocator-policy-arguments")
@pytest.mark.parametrize(
    ("argument", "where"),
    [
        ("queues.team-a.qouta.cpu=1", "'qouta'"),
        ("queues.team-a.weight=0", "queues/team-a/weight"),
        ("queues.team-a.quota.cpu=much", "queues/team-a/quota/cpu"),
        ("queues.team-a.quota.cpu=-1", "queues/team-a/quota/cpu"),
        ("queues.team-a.guarantee=4", "queues/team-a/guarantee"),
        ("queues.Team.weight=1", "'Team'"),
        ("shares.team-a=0", "shares/team-a"),
        ("ageing_seconds=0", "ageing_seconds"),
    ],
)
def test_bad_allocator_arguments_are_refused_with_their_path(
    chart: Chart, argument: str, where: str
) -> None:
    with pytest.raises(Refused) as refused:
        chart.render(f"operator.allocator.arguments.{argument}")
    assert where in str(refused.value)


def test_the_chart_works_as_a_subchart(chart: Chart) -> None:
    assert chart.render("global.environment=test").objects
