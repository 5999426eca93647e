"""The page for many is off; turned on it has a certificate, a Service and no rights at all."""

from __future__ import annotations

from typing import Any

import pytest

from di_dashboard.shared.config import load_config
from di_service.settings import SettingsError
from tests.chart.chart import Chart, Refused
from tests.chart.test_rbac import permissions

ON = "dashboard.enabled=true"


def pod(chart: Chart, *values: str) -> Any:
    return chart.render(ON, *values).pods()["di-dashboard"]["spec"]


@pytest.mark.proves("operations.md#values/dashboard-enabled")
def test_the_dashboard_has_no_rights_and_no_token(chart: Chart) -> None:
    rendered = chart.render(ON)
    assert permissions(rendered, "di-dashboard") == {}
    spec = pod(chart)
    assert spec["automountServiceAccountToken"] is False
    assert not [each for each in spec["volumes"] if "projected" in each]
    account = rendered.one("ServiceAccount", "di-dashboard")
    assert account["automountServiceAccountToken"] is False


def test_the_dashboard_gets_its_settings_and_mounts(chart: Chart) -> None:
    values = ("history.enabled=true", "dashboard.readOnly=true", "dashboard.clusterName=west")
    found = dict(chart.render(ON, *values).one("ConfigMap", "di-dashboard")["data"])
    config = load_config([], found)
    assert (config.read_only, config.cluster, config.callers) == (True, "west", 32)
    assert config.history_server == "https://di-history.di-system.svc:8443"
    mounts = {each["mountPath"] for each in pod(chart, *values)["containers"][0]["volumeMounts"]}
    for path in (config.cert_dir, config.api_ca.parent, config.history_ca):
        assert path is not None
    assert mounts == {"/certs", "/kube", "/history", "/tmp"}
    volumes = {each["name"]: each for each in pod(chart, *values)["volumes"]}
    items = volumes["history-authority"]["secret"]["items"]
    assert items == [{"key": "ca.crt", "path": "ca.crt"}]


@pytest.mark.proves("operations.md#values/dashboard-path")
@pytest.mark.parametrize("path", ["/", "/di", "/tools/di/"])
def test_the_dashboard_gets_the_path_that_it_is_below(chart: Chart, path: str) -> None:
    found = chart.render(ON, f"dashboard.path={path}").one("ConfigMap", "di-dashboard")["data"]
    assert load_config([], found).path == path


@pytest.mark.parametrize("path", ["di", "//host", "/a b", "/di?x", "/a//b"])
def test_a_path_that_is_none_is_refused(chart: Chart, path: str) -> None:
    with pytest.raises(Refused, match="path"):
        chart.render(ON, f"dashboard.path={path}")
    with pytest.raises(SettingsError, match="DI_DASHBOARD_PATH"):
        load_config([], {"DI_DASHBOARD_PATH": path})


def test_without_a_history_the_dashboard_reads_none(chart: Chart) -> None:
    found = chart.render(ON).one("ConfigMap", "di-dashboard")["data"]
    assert load_config([], found).history_server is None
    assert [each["name"] for each in pod(chart)["volumes"]] == ["certificate", "authorities", "tmp"]


def test_the_network_policy_opens_the_dashboards_ports(chart: Chart) -> None:
    values = ("networkPolicy.enabled=true", "history.enabled=true")
    policy = chart.render(ON, *values).one("NetworkPolicy", "di-dashboard")["spec"]
    ports = [{"protocol": "TCP", "port": port} for port in (8443, 8082)]
    assert policy["ingress"] == [{"ports": ports}]
    history = policy["egress"][-1]["to"][0]["podSelector"]["matchLabels"]
    assert history["app.kubernetes.io/component"] == "history"


@pytest.mark.proves("operations.md#ip-families")
def test_services_prefer_both_families_but_those_that_know_pods_by_address(chart: Chart) -> None:
    services = chart.render(ON, "history.enabled=true").of_kind("Service")
    policies = {name: each["spec"]["ipFamilyPolicy"] for name, each in services.items()}
    assert policies == {
        "di-webhook": "PreferDualStack",
        "di-history": "PreferDualStack",
        "di-dashboard": "PreferDualStack",
        "di-server": "SingleStack",
        "di-server-peers": "SingleStack",
    }
