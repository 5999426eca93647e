"""The command lines of the control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_cluster.controlplane import api_server_argv, etcd_argv
from di_cluster.network import Network

PKI = Path("/pki")


def flags(argv: list[str]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in argv[1:])


def api_server(*extra: str) -> list[str]:
    return api_server_argv(
        binary=Path("/bin/kube-apiserver"),
        network=Network(2),
        pki=PKI,
        authentication=Path("/authentication.json"),
        extra=extra,
    )


@pytest.mark.proves("cluster.md#commands/up-api-server-arg-flag-value")
def test_extra_arguments_come_last() -> None:
    argv = api_server("--audit-log-path=-", "--profiling=true")
    assert argv[-2:] == ["--audit-log-path=-", "--profiling=true"]


def test_etcd_talks_tls_to_known_clients_inside_the_box_only() -> None:
    argv = etcd_argv(binary=Path("/bin/etcd"), data=Path("/data"), pki=PKI)
    told = flags(argv)
    assert "--client-cert-auth" in told
    assert "--peer-client-cert-auth" in told
    for name in ("--listen-client-urls", "--listen-peer-urls"):
        assert told[name].startswith("https://127.0.0.1:")
