"""What the control plane is told by its command lines."""

from __future__ import annotations

from pathlib import Path

from di_cluster.controlplane import api_server_argv, controller_manager_argv, etcd_argv
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


def test_the_api_server_listens_on_the_clusters_own_address() -> None:
    told = flags(api_server())
    assert told["--bind-address"] == told["--advertise-address"] == "10.242.0.1"
    assert told["--service-cluster-ip-range"] == "10.242.128.0/17"


def test_the_api_server_authorizes_nodes_and_roles() -> None:
    told = flags(api_server())
    assert told["--authorization-mode"] == "Node,RBAC"
    assert told["--enable-admission-plugins"] == "NodeRestriction"
    # Given together with the file, the API server refuses to start.
    assert "--anonymous-auth" not in told


def test_extra_arguments_come_last_so_that_they_win() -> None:
    argv = api_server("--audit-log-path=-", "--profiling=true")
    assert argv[-2:] == ["--audit-log-path=-", "--profiling=true"]


def test_etcd_talks_tls_to_known_clients_inside_the_box_only() -> None:
    argv = etcd_argv(binary=Path("/bin/etcd"), data=Path("/data"), pki=PKI)
    told = flags(argv)
    assert "--client-cert-auth" in told
    assert "--peer-client-cert-auth" in told
    for name in ("--listen-client-urls", "--listen-peer-urls"):
        assert told[name].startswith("https://127.0.0.1:")


def test_controllers_without_work_are_off() -> None:
    argv = controller_manager_argv(
        binary=Path("/bin/kcm"), kubeconfig=Path("/k"), pki=PKI, volume_plugins=Path("/v")
    )
    controllers = flags(argv)["--controllers"].split(",")
    assert controllers[0] == "*"
    assert "-node-ipam-controller" in controllers
    assert "-certificatesigningrequest-signing-controller" in controllers
