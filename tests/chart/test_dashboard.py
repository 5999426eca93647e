"""The page for many is off; turned on it has a certificate, a Service and no rights at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from di_dashboard.shared.config import load_config
from tests.chart.chart import CHART, GIVEN_SECRETS, Chart, Refused
from tests.chart.test_rbac import permissions

ON = "dashboard.enabled=true"
OWN_KEYS = {"readOnly", "clusterName", "callers", "idleSeconds", "tls"}
NOT_OF_ONE_POD = {"replicas", "pdb", "topologySpread", "drainSeconds"}


def pod(chart: Chart, *values: str) -> Any:
    return chart.render(ON, *values).pods()["di-dashboard"]["spec"]


def test_nothing_of_it_is_there_until_it_is_turned_on(chart: Chart) -> None:
    assert not [each for each in chart.render().objects if "dashboard" in each["metadata"]["name"]]
    assert "di-dashboard" not in chart.notes()


def test_it_has_no_rights_and_no_token(chart: Chart) -> None:
    rendered = chart.render(ON)
    assert permissions(rendered, "di-dashboard") == {}
    spec = pod(chart)
    assert spec["automountServiceAccountToken"] is False
    assert not [each for each in spec["volumes"] if "projected" in each]
    account = rendered.one("ServiceAccount", "di-dashboard")
    assert account["automountServiceAccountToken"] is False


def test_what_it_has_in_common_with_the_others_is_called_alike() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    common = {key for key in values["dashboard"] if key not in OWN_KEYS}
    assert common == {*values["webhook"], "enabled"} - NOT_OF_ONE_POD
    for key in common:
        assert schema["dashboard"]["properties"][key] == schema["history"]["properties"][key]


def test_its_settings_are_those_that_it_reads(chart: Chart) -> None:
    values = ("history.enabled=true", "dashboard.readOnly=true", "dashboard.clusterName=west")
    found = dict(chart.render(ON, *values).one("ConfigMap", "di-dashboard")["data"])

    config = load_config([], found)

    assert (config.read_only, config.cluster, config.callers) == (True, "west", 32)
    assert config.history_server == "https://di-history.di-system.svc:8443"
    mounts = {each["mountPath"] for each in pod(chart, *values)["containers"][0]["volumeMounts"]}
    for path in (config.cert_dir, config.api_ca.parent, config.history_ca):
        assert path is not None
    assert mounts == {"/certs", "/kube", "/history", "/tmp"}
    for key, value in found.items():
        free_text = {"CLUSTER", "API_CA", "CERT_DIR", "HISTORY_SERVER", "HISTORY_CA"}
        if key.removeprefix("DI_DASHBOARD_") not in free_text:
            with pytest.raises(Exception, match=key):
                load_config([], {**found, key: value + "?"})


def test_without_a_history_none_is_asked(chart: Chart) -> None:
    found = chart.render(ON).one("ConfigMap", "di-dashboard")["data"]
    assert load_config([], found).history_server is None
    assert [each["name"] for each in pod(chart)["volumes"]] == ["certificate", "authorities", "tmp"]


def test_of_the_histories_secret_it_has_the_authority_alone(chart: Chart) -> None:
    volumes = {each["name"]: each for each in pod(chart, "history.enabled=true")["volumes"]}
    items = volumes["history-authority"]["secret"]["items"]
    assert items == [{"key": "ca.crt", "path": "ca.crt"}]


@pytest.mark.parametrize(
    ("values", "makes", "serves"),
    [
        ((), "di-dashboard-tls", "di-dashboard-tls"),
        (("dashboard.tls.secretName=mine",), "mine", "mine"),
        (("certificates.mode=cert-manager",), "", "di-dashboard-tls"),
        ((*GIVEN_SECRETS, "dashboard.tls.secretName=mine"), "", "mine"),
    ],
)
def test_the_operator_makes_its_certificate_unless_somebody_else_does(
    chart: Chart, values: tuple[str, ...], makes: str, serves: str
) -> None:
    rendered = chart.render(ON, *values)
    operator = rendered.one("ConfigMap", "di-operator")["data"]
    mounted = [each["secret"]["secretName"] for each in pod(chart, *values)["volumes"][:1]]
    policy = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-operator-names")

    assert operator["DI_OPERATOR_DASHBOARD_SECRET"] == makes
    assert mounted == [serves]
    assert (f"'secrets/{makes}'" in str(policy)) == bool(makes)
    certificates = rendered.of_kind("Certificate")
    assert ("di-dashboard" in certificates) == ("certificates.mode=cert-manager" in values)


def test_a_certificate_that_nobody_would_make_is_refused(chart: Chart) -> None:
    with pytest.raises(Refused, match=r"make for the dashboard in dashboard\.tls\.secretName"):
        chart.render(ON, *GIVEN_SECRETS)
    alone = ("operator.enabled=false", "webhook.enabled=false", "server.enabled=false")
    with pytest.raises(Refused, match="nobody would make the certificates"):
        chart.render(ON, *alone)


def test_who_may_see_what_is_not_the_networks_to_say(chart: Chart) -> None:
    values = ("networkPolicy.enabled=true", "history.enabled=true")
    policy = chart.render(ON, *values).one("NetworkPolicy", "di-dashboard")["spec"]
    ports = [{"protocol": "TCP", "port": port} for port in (8443, 8082)]
    assert policy["ingress"] == [{"ports": ports}]
    history = policy["egress"][-1]["to"][0]["podSelector"]["matchLabels"]
    assert history["app.kubernetes.io/component"] == "history"


def test_its_pod_is_as_strict_as_the_others(chart: Chart) -> None:
    pods = chart.render(ON).pods()
    dashboard, server = (pods[name]["spec"] for name in ("di-dashboard", "di-server"))
    for key in ("securityContext", "enableServiceLinks"):
        assert dashboard[key] == server[key]
    contexts = [each["containers"][0]["securityContext"] for each in (dashboard, server)]
    assert contexts[0] == contexts[1]


def test_the_notes_say_where_it_is(chart: Chart) -> None:
    assert "https://di-dashboard.di-system.svc:8443" in chart.notes(ON)
