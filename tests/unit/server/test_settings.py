"""Settings from the environment."""

from __future__ import annotations

import pytest

from di_api.service.settings import SettingsError
from di_server.config import AuthMode, load_config


def test_defaults_are_those_of_the_chart() -> None:
    config = load_config([], {"PATH": "/bin", "DI_SERVER_WATCH_NAMESPACE": ""})
    assert tuple(map(str, config.binds)) == ("0.0.0.0:8080", "0.0.0.0:8081")
    assert config.tls_port is None
    assert config.watch_namespace is None
    assert config.service_domain == "svc.cluster.local"
    assert config.auth is AuthMode.OPTIONAL
    assert (config.rate, config.burst) == (20, 40)
    assert config.default_max_replicas == 32
    assert (config.refusal_rate, config.refusal_burst) == (1, 20)
    assert (config.review_rate, config.lookup_rate) == (100, 20)


def test_every_variable_is_read() -> None:
    config = load_config(
        [],
        {
            "DI_SERVER_BINDS": "127.0.0.1:1, 127.0.0.1:2",
            "DI_SERVER_TLS_PORT": "2",
            "DI_SERVER_CERT_DIR": "/tls",
            "DI_SERVER_HEALTH_BIND": "127.0.0.1:3",
            "DI_SERVER_WATCH_NAMESPACE": "rl",
            "DI_SERVER_SERVICE_DOMAIN": "svc.example",
            "DI_SERVER_AUTH": "required",
            "DI_SERVER_THREADS": "8",
            "DI_SERVER_RATE": "5.5",
            "DI_SERVER_BURST": "6",
            "DI_SERVER_DEFAULT_MAX_REPLICAS": "7",
            "DI_SERVER_REFUSAL_RATE": "0.5",
            "DI_SERVER_REFUSAL_BURST": "7",
            "DI_SERVER_REVIEW_RATE": "8",
            "DI_SERVER_LOOKUP_RATE": "9.5",
            "DI_SERVER_DRAIN_SECONDS": "0",
            "DI_SERVER_LOG_LEVEL": "warning",
            "KUBECONFIG": "/config",
        },
    )
    assert tuple(map(str, config.binds)) == ("127.0.0.1:1", "127.0.0.1:2")
    assert (config.tls_port, str(config.cert_dir)) == (2, "/tls")
    assert str(config.health_bind) == "127.0.0.1:3"
    assert (config.watch_namespace, config.auth) == ("rl", AuthMode.REQUIRED)
    assert config.service_domain == "svc.example"
    assert (config.threads, config.rate, config.burst) == (8, 5.5, 6)
    assert config.default_max_replicas == 7
    assert (config.refusal_rate, config.refusal_burst) == (0.5, 7)
    assert (config.review_rate, config.lookup_rate) == (8, 9.5)
    assert (config.drain_seconds, config.kubeconfig) == (0, "/config")
    assert config.log_level == "warning"


@pytest.mark.parametrize("port", ["3", "-1", "http"])
def test_a_port_for_https_is_one_of_those_that_are_bound(port: str) -> None:
    with pytest.raises(SettingsError, match="DI_SERVER_TLS_PORT"):
        load_config([], {"DI_SERVER_BINDS": "127.0.0.1:1,127.0.0.1:2", "DI_SERVER_TLS_PORT": port})


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        load_config(
            [],
            {
                "DI_SERVER_AUTH": "maybe",
                "DI_SERVER_THREADS": "0",
                "DI_SERVER_DEFAULT_MAX_REPLICAS": "4097",
                "DI_SERVER_HEALTH_BIND": "8082",
            },
        )
    assert "DI_SERVER_AUTH" in str(raised.value)
    assert "DI_SERVER_THREADS" in str(raised.value)
    assert "DI_SERVER_DEFAULT_MAX_REPLICAS" in str(raised.value)
    assert "DI_SERVER_HEALTH_BIND" in str(raised.value)
