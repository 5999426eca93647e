"""The configuration: variables, flags, defaults, and one message for all mistakes."""

from __future__ import annotations

import pytest

from di_operator.config import Address, Config, ConfigError, load_config


def load(*argv: str, **environ: str) -> Config:
    environ.setdefault("DI_OPERATOR_NAMESPACE", "di-system")
    return load_config(argv, environ, random_identity=lambda: "random")


def test_defaults() -> None:
    config = load()
    assert config.watch_namespace is None
    assert config.service_domain == "svc.cluster.local"
    assert config.server_url == "http://di-server.di-system.svc.cluster.local:8081"
    assert config.health == Address(host="0.0.0.0", port=8080)
    assert config.lease_name == "di-operator"
    assert config.identity == "random"
    assert config.leader_elect is True
    assert config.sync_period == 60.0
    assert config.webhook_secret is None
    assert config.kubeconfig is None


def test_variables_are_read_by_type() -> None:
    config = load(
        DI_OPERATOR_HEALTH_BIND="[::1]:9000",
        DI_OPERATOR_LEADER_ELECT="false",
        DI_OPERATOR_SYNC_PERIOD="2.5",
        DI_OPERATOR_SERVER_URL="http://elsewhere:80/",
        DI_OPERATOR_AGGREGATOR_TEMPLATE='{"spec": {}}',
        PATH="/usr/bin",
    )
    assert config.health == Address(host="::1", port=9000)
    assert config.leader_elect is False
    assert config.sync_period == 2.5
    assert config.aggregator_template == {"spec": {}}
    assert config.server_url == "http://elsewhere:80"


def test_an_empty_variable_is_an_absent_one() -> None:
    config = load(DI_OPERATOR_WATCH_NAMESPACE="", DI_OPERATOR_SYNC_PERIOD="")
    assert config.watch_namespace is None
    assert config.sync_period == 60.0


def test_a_flag_wins_over_its_variable() -> None:
    config = load("--sync-period", "5", DI_OPERATOR_SYNC_PERIOD="7")
    assert config.sync_period == 5


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            DI_OPERATOR_NAMESPACE="",
            DI_OPERATOR_SYNC_PERIOD="often",
            DI_OPERATOR_HEALTH_BIND="8080",
            DI_OPERATOR_WATCH_NAMESPACE="../etc",
        )
    message = str(caught.value)
    for variable in ("NAMESPACE", "SYNC_PERIOD", "HEALTH_BIND", "WATCH_NAMESPACE"):
        assert f"DI_OPERATOR_{variable}=" in message


def test_managing_certificates_needs_the_configuration_to_put_them_in() -> None:
    with pytest.raises(ConfigError, match="DI_OPERATOR_WEBHOOK_CONFIGURATION"):
        load(DI_OPERATOR_WEBHOOK_SECRET="di-webhook-tls")
