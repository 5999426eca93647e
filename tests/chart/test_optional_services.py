"""History and dashboard are off; turned on, each is configured and secured like other services."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from di_dashboard.shared.config import load_config as load_dashboard_config
from di_history.config import load_config as load_history_config
from tests.chart.chart import CHART, GIVEN_SECRETS, Chart, Refused
from tests.chart.test_components import OWN_KEYS as OF_COMPONENTS

LOADERS: dict[str, Callable[..., Any]] = {
    "history": load_history_config,
    "dashboard": load_dashboard_config,
}
OWN_KEYS = {
    "history": {"database", "objectStorage", "persistence", "retention", "tls", "usage"},
    "dashboard": {"readOnly", "clusterName", "path", "callers", "idleSeconds", "tls"},
}
NOT_OF_ONE_POD = {"replicas", "pdb", "topologySpread", "drainSeconds"}
FREE_TEXT = (
    *("WATCH_NAMESPACE", "DATABASE"),
    *("CLUSTER", "API_CA", "CERT_DIR", "HISTORY_SERVER", "HISTORY_CA"),
)
ALONE = ("operator.enabled=false", "webhook.enabled=false", "server.enabled=false")

both = pytest.mark.parametrize("service", LOADERS)


@both
def test_the_service_is_off_by_default(chart: Chart, service: str) -> None:
    assert not [each for each in chart.render().objects if service in each["metadata"]["name"]]
    assert service not in chart.notes()
    assert f"https://di-{service}.di-system.svc:8443" in chart.notes(f"{service}.enabled=true")


@both
def test_common_values_have_the_same_keys_and_schema(service: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    common = {key for key in values[service] if key not in OWN_KEYS[service]}
    missing = NOT_OF_ONE_POD if service == "dashboard" else set()
    own = OF_COMPONENTS["webhook"]
    assert common == {*values["webhook"], "enabled"} - own - missing
    for key in common & {*schema["webhook"]["properties"]}:
        expected = "history" if service == "dashboard" else "webhook"
        assert schema[service]["properties"][key] == schema[expected]["properties"][key]


@pytest.mark.parametrize(
    ("service", "values"),
    [
        *(("history", each) for each in ((), ("history.tls.enabled=false",))),
        ("history", ("history.database.existingSecret=history-database",)),
        ("dashboard", ("history.enabled=true", "dashboard.readOnly=true")),
    ],
)
def test_the_service_reads_every_rendered_setting(
    chart: Chart, service: str, values: tuple[str, ...]
) -> None:
    load = LOADERS[service]
    rendered = chart.render(f"{service}.enabled=true", *values)
    found = dict(rendered.one("ConfigMap", f"di-{service}")["data"])
    load([], found)
    for key, value in found.items():
        if key.removeprefix(f"DI_{service.upper()}_") not in FREE_TEXT:
            with pytest.raises(Exception, match=key):
                load([], {**found, key: value + "?"})


@both
@pytest.mark.parametrize(
    ("values", "makes", "serves"),
    [
        ((), "di-{}-tls", "di-{}-tls"),
        (("{}.tls.secretName=mine",), "mine", "mine"),
        (("certificates.mode=cert-manager",), "", "di-{}-tls"),
        ((*GIVEN_SECRETS, "{}.tls.secretName=mine"), "", "mine"),
    ],
)
def test_the_operator_creates_the_services_certificate_by_default(
    chart: Chart, service: str, values: tuple[str, ...], makes: str, serves: str
) -> None:
    makes, serves = makes.format(service), serves.format(service)
    rendered = chart.render(f"{service}.enabled=true", *(each.format(service) for each in values))
    operator = rendered.one("ConfigMap", "di-operator")["data"]
    volumes = rendered.pods()[f"di-{service}"]["spec"]["volumes"]
    mounted = [each["secret"]["secretName"] for each in volumes if "secret" in each]
    policy = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-operator-names")
    assert operator[f"DI_OPERATOR_{service.upper()}_SECRET"] == makes
    assert mounted == [serves]
    assert (f"'secrets/{makes}'" in str(policy)) == bool(makes)
    by_manager = "certificates.mode=cert-manager" in values
    assert (f"di-{service}" in rendered.of_kind("Certificate")) == by_manager


@both
def test_a_certificate_without_an_issuer_is_refused(chart: Chart, service: str) -> None:
    on = f"{service}.enabled=true"
    with pytest.raises(Refused, match=rf"make for the {service} in {service}\.tls\.secretName"):
        chart.render(on, *GIVEN_SECRETS)
    with pytest.raises(Refused, match="nobody would make the certificates"):
        chart.render(on, *ALONE)


@both
def test_the_pod_is_restricted_like_the_servers(chart: Chart, service: str) -> None:
    pods = chart.render(f"{service}.enabled=true").pods()
    ours, server = (pods[name]["spec"] for name in (f"di-{service}", "di-server"))
    for key in ("securityContext", "enableServiceLinks"):
        assert ours[key] == server[key]
    contexts = [each["containers"][0]["securityContext"] for each in (ours, server)]
    assert contexts[0] == contexts[1]
