"""Kubeconfig files and service-account mounts, as kubectl and pods find them."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_certs.authority import Authority
from di_kube import config as config_module
from di_kube.config import TOKEN_PERIOD, ConfigError, KubeConfig, load_config


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, user: dict[str, Any], **cluster: Any) -> str:
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "second"}}],
        "contexts": [
            {"name": "first", "context": {"cluster": "c", "user": "u"}},
            {"name": "second", "context": {"cluster": "c", "user": "other"}},
        ],
        "current-context": "first",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(body))
    return str(path)


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def test_certificates_inside_the_file(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("ca", now=now, lifetime=timedelta(days=1))
    pair = authority.issue("me", now=now, lifetime=timedelta(days=1), client=True)
    user = {
        "client-certificate-data": encoded(pair.certificate_pem),
        "client-key-data": encoded(pair.private_key_pem),
    }
    ca = {"certificate-authority-data": encoded(authority.certificate_pem)}
    found = load_config(write(tmp_path, user, **ca))
    assert found.server == "https://api:6443"
    assert found.ca_pem == authority.certificate_pem
    assert found.client_cert_pem == pair.certificate_pem
    assert found.authorization() is None
    context = found.ssl_context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert "PRIVATE KEY" not in repr(found)


def test_a_token_and_the_choice_of_a_context(tmp_path: Path) -> None:
    path = write(tmp_path, {"token": "first"})
    assert load_config(path).authorization() == "Bearer first"
    assert load_config(path, "second").authorization() == "Bearer second"


def test_a_token_file_is_read_again_each_minute_and_no_more(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", Clock()
    token.write_text("one\n")
    found = load_config(write(tmp_path, {"tokenFile": str(token)}), clock=clock)
    assert found.authorization() == "Bearer one"
    token.write_text("two")
    clock.now += TOKEN_PERIOD - 1
    assert found.authorization() == "Bearer one"
    clock.now += 1
    assert found.authorization() == "Bearer two"
    token.unlink()
    clock.now += TOKEN_PERIOD
    assert found.authorization() == "Bearer two", "the mount is being swapped"


def test_verification_is_off_only_where_the_file_says_so(tmp_path: Path) -> None:
    found = load_config(write(tmp_path, {"token": "t"}, **{"insecure-skip-tls-verify": True}))
    assert found.ssl_context().verify_mode == ssl.CERT_NONE
    assert load_config(write(tmp_path, {"token": "t"})).verify


def test_the_expected_server_name_is_kept(tmp_path: Path) -> None:
    found = load_config(write(tmp_path, {"token": "t"}, **{"tls-server-name": "kubernetes"}))
    assert found.tls_server_name == "kubernetes"


def test_inside_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    authority = Authority.create("ca", now=now, lifetime=timedelta(days=1))
    token, ca, clock = tmp_path / "token", tmp_path / "ca.crt", Clock()
    token.write_text("one")
    ca.write_bytes(authority.certificate_pem)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(config_module, "SERVICE_ACCOUNT", tmp_path)
    found = load_config(None, clock=clock)
    assert found.server == "https://10.96.0.1:443"
    assert found.ca_pem == authority.certificate_pem
    assert found.authorization() == "Bearer one"
    token.write_text("two")
    clock.now += TOKEN_PERIOD
    assert found.authorization() == "Bearer two"


def test_a_pod_without_the_address_of_its_cluster_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("one")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(config_module, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        load_config(None)


def test_a_missing_file_a_wrong_context_and_junk_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        load_config(str(tmp_path / "nothing"))
    path = write(tmp_path, {"token": "t"})
    with pytest.raises(ConfigError, match="no-such-context"):
        load_config(path, "no-such-context")
    Path(path).write_text("{not: [yaml")
    with pytest.raises(ConfigError, match="kubeconfig"):
        load_config(path)
    Path(path).write_text("just text")
    with pytest.raises(ConfigError, match="kubeconfig"):
        load_config(path)


@pytest.mark.parametrize("field", ["ca_pem", "client_cert_pem"])
def test_a_certificate_that_is_none_is_a_configuration_error(field: str) -> None:
    parts: dict[str, Any] = {"client_key_pem": b"junk"} | {field: b"junk"}
    with pytest.raises(ConfigError, match="certificates for https://api"):
        KubeConfig(server="https://api", **parts).ssl_context()
