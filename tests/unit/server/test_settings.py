"""Settings from the environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from di_server.config import AuthMode, Config, load_config
from di_server.model.references import ConfigRef
from di_service.settings import Address, SettingsError

DEFAULTS = load_config([], {"PATH": "/bin", "DI_SERVER_WATCH_NAMESPACE": ""})


def _local(port: int) -> Address:
    return Address(host="127.0.0.1", port=port)


@pytest.mark.proves(
    "rest.md#running-it/di-server-binds",
    "rest.md#running-it/di-server-default-max-replicas",
    "rest.md#running-it/di-server-rate-di-server-burst",
)
def test_defaults_are_those_of_the_chart() -> None:
    every = Address(host="::", port=8080)
    assert (
        replace(
            DEFAULTS,
            binds=(every, replace(every, port=8081)),
            tls_port=None,
            watch_namespace=None,
            service_domain="svc.cluster.local",
            auth=AuthMode.OPTIONAL,
            rate=20,
            burst=40,
            report_seconds=1,
            default_max_replicas=32,
            refusal_rate=1,
            refusal_burst=20,
            review_rate=100,
            lookup_rate=20,
        )
        == DEFAULTS
    )


@pytest.mark.proves(
    "rest.md#running-it/di-server-binds",
    "rest.md#running-it/di-server-tls-port",
    "rest.md#running-it/di-server-cert-dir",
    "rest.md#running-it/di-server-health-bind",
    "rest.md#running-it/di-server-watch-namespace",
    "rest.md#running-it/di-server-service-domain",
    "rest.md#running-it/di-server-auth",
    "rest.md#running-it/di-server-default-max-replicas",
    "rest.md#running-it/di-server-threads",
    "rest.md#running-it/di-server-rate-di-server-burst",
    "rest.md#running-it/di-server-refusal-rate-di-server-refusal",
    "rest.md#running-it/di-server-report-seconds",
    "rest.md#running-it/di-server-review-rate",
    "rest.md#running-it/di-server-lookup-rate",
    "rest.md#running-it/di-server-drain-seconds",
    "rest.md#running-it/di-server-log-level",
    "rest.md#running-it/kubeconfig",
    "rest.md#running-it/di-server-aggregator-config",
    "rest.md#running-it/di-server-watch-nodes",
    "rest.md#running-it/di-server-peers",
    "rest.md#running-it/di-server-peer-token-file",
    "rest.md#running-it/di-server-peer-host",
)
def test_every_variable_is_read() -> None:
    given: dict[str, tuple[str, object]] = {
        "BINDS": ("127.0.0.1:1, 127.0.0.1:2", (_local(1), _local(2))),
        "TLS_PORT": ("2", 2),
        "CERT_DIR": ("/tls", Path("/tls")),
        "HEALTH_BIND": ("127.0.0.1:3", _local(3)),
        "WATCH_NAMESPACE": ("rl", "rl"),
        "SERVICE_DOMAIN": ("svc.example", "svc.example"),
        "AUTH": ("required", AuthMode.REQUIRED),
        "THREADS": ("8", 8),
        "RATE": ("5.5", 5.5),
        "BURST": ("6", 6),
        "DEFAULT_MAX_REPLICAS": ("7", 7),
        "REPORT_SECONDS": ("0.25", 0.25),
        "REFUSAL_RATE": ("0.5", 0.5),
        "REFUSAL_BURST": ("7", 7),
        "REVIEW_RATE": ("8", 8),
        "LOOKUP_RATE": ("9.5", 9.5),
        "DRAIN_SECONDS": ("0", 0),
        "LOG_LEVEL": ("warning", "warning"),
        "AGGREGATOR_CONFIG": ("rl/config", ConfigRef("rl", "config")),
        "WATCH_NODES": ("false", False),
        "PEERS": ("127.0.0.1:4,127.0.0.1:5", (_local(4), _local(5))),
        "PEER_TOKEN_FILE": ("/token", Path("/token")),
        "PEER_HOST": ("server.example", "server.example"),
    }
    environ = {f"DI_SERVER_{name}": text for name, (text, _) in given.items()}
    read: Config = load_config([], {**environ, "KUBECONFIG": "/config"})
    assert read.kubeconfig == "/config"
    assert {name: getattr(read, name.lower()) for name in given} == {
        name: value for name, (_, value) in given.items()
    }


@pytest.mark.parametrize("port", ["3", "-1", "http"])
def test_the_port_for_https_is_one_of_those_that_are_bound(port: str) -> None:
    with pytest.raises(SettingsError, match="DI_SERVER_TLS_PORT"):
        load_config([], {"DI_SERVER_BINDS": "127.0.0.1:1,127.0.0.1:2", "DI_SERVER_TLS_PORT": port})


def test_all_mistakes_are_named_at_once() -> None:
    bad = {"AUTH": "maybe", "THREADS": "0", "DEFAULT_MAX_REPLICAS": "4097", "HEALTH_BIND": "8082"}
    with pytest.raises(SettingsError) as raised:
        load_config([], {f"DI_SERVER_{name}": value for name, value in bad.items()})
    for name in bad:
        assert f"DI_SERVER_{name}" in str(raised.value)
