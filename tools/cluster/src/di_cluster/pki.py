"""Certificates and kubeconfigs of one cluster."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from di_certs.authority import Authority, KeyPair, generate_key_pair, needs_renewal
from di_cluster.network import DOMAIN, MAX_NODES, Network, node_name

LIFETIME = timedelta(days=365)
FRONT_PROXY = "front-proxy-client"
"""As whom the API server comes to those that serve a part of its API (metrics of KEDA, say)."""

# Users of the control plane's own programs. RBAC binds all of these names out of the box, except
# system:coredns.
_COMPONENT_USERS = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kube-proxy": "system:kube-proxy",
    "coredns": "system:coredns",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    file: str
    common_name: str
    organizations: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    server: bool = False
    client: bool = False
    is_front_proxy: bool = False
    """Whether aggregated API servers know its holder for the API server."""


def ensure_pki(
    *, network: Network, pki: Path, kubeconfigs: Path, admin: Path, name: str, now: datetime
) -> bool:
    """Make all certificates and kubeconfigs, unless good ones are there.

    They are replaced when two thirds of their life have passed or the network changed.

    Args:
        network: addresses that the servers' certificates name.
        pki: folder for PEM files.
        kubeconfigs: folder for the components' kubeconfigs.
        admin: file for the administrator's kubeconfig.
        name: the cluster's name, shown as the kubeconfig's context.
        now: the current time (UTC).

    Returns:
        Whether new ones were made.
    """
    # Written last: a run that is interrupted in between is not mistaken for a complete one.
    done = pki / "complete.json"
    leaves = _leaves(network)
    files = [leaf.file for leaf in leaves]
    identity = json.dumps({"server": network.server_url, "name": name, "files": files})
    if (
        done.is_file()
        and done.read_text() == identity
        and not needs_renewal((pki / "ca.crt").read_bytes(), now=now)
    ):
        return False
    authority = Authority.create(f"{name} cluster", now=now, lifetime=LIFETIME)
    _write(pki / "ca.crt", authority.certificate_pem)
    _write(pki / "ca.key", authority.private_key_pem)
    # Whoever has a certificate of this one is believed about whom it asks for, so it is another.
    front = Authority.create(f"{name} front proxy", now=now, lifetime=LIFETIME)
    _write(pki / "front-proxy-ca.crt", front.certificate_pem)
    for leaf in leaves:
        issuer = front if leaf.is_front_proxy else authority
        _write_pair(pki, leaf.file, _issue(issuer, leaf, now=now))
    signing = generate_key_pair()
    _write(pki / "service-account.pub", signing.certificate_pem)
    _write(pki / "service-account.key", signing.private_key_pem)

    def client(user: str, groups: Iterable[str] = ()) -> bytes:
        pair = authority.issue(user, now=now, lifetime=LIFETIME, organizations=groups, client=True)
        return _kubeconfig(
            name=name, server=network.server_url, ca=authority.certificate_pem, user=user, pair=pair
        )

    for component, user in _COMPONENT_USERS.items():
        _write(kubeconfigs / component, client(user))
    for index in range(MAX_NODES):
        node = node_name(index)
        _write(kubeconfigs / node, client(f"system:node:{node}", ["system:nodes"]))
    _write(admin, client("kubernetes-admin", ["system:masters"]))
    _write(done, identity.encode())
    return True


def _leaves(network: Network) -> list[_Leaf]:
    local = ("localhost", "127.0.0.1")
    kubernetes = tuple(
        ".".join(["kubernetes", "default", "svc", DOMAIN][:length]) for length in range(1, 5)
    )
    leaves = [
        _Leaf(
            file="kube-apiserver",
            common_name="kube-apiserver",
            hosts=(*kubernetes, *local, str(network.control_plane), str(network.api_service)),
            server=True,
        ),
        _Leaf(file="etcd", common_name="etcd", hosts=local, server=True, client=True),
        _Leaf(file="etcd-client", common_name="kube-apiserver-etcd-client", client=True),
        _Leaf(
            file="front-proxy-client",
            common_name=FRONT_PROXY,
            client=True,
            is_front_proxy=True,
        ),
        _Leaf(
            file="kubelet-client",
            common_name="kube-apiserver-kubelet-client",
            organizations=("system:masters",),
            client=True,
        ),
    ]
    for index in range(MAX_NODES):
        node = node_name(index)
        leaves.append(
            _Leaf(
                file=f"{node}-serving",
                common_name=f"system:node:{node}",
                organizations=("system:nodes",),
                hosts=(node, str(network.node_address(index))),
                server=True,
            )
        )
    return leaves


def _issue(authority: Authority, leaf: _Leaf, *, now: datetime) -> KeyPair:
    return authority.issue(
        leaf.common_name,
        now=now,
        lifetime=LIFETIME,
        organizations=leaf.organizations,
        hosts=leaf.hosts,
        server=leaf.server,
        client=leaf.client,
    )


def _kubeconfig(*, name: str, server: str, ca: bytes, user: str, pair: KeyPair) -> bytes:
    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    cluster = {"server": server, "certificate-authority-data": encoded(ca)}
    credentials = {
        "client-certificate-data": encoded(pair.certificate_pem),
        "client-key-data": encoded(pair.private_key_pem),
    }
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }
    return (json.dumps(body, indent=2) + "\n").encode()


def _write_pair(folder: Path, name: str, pair: KeyPair) -> None:
    _write(folder / f"{name}.crt", pair.certificate_pem)
    _write(folder / f"{name}.key", pair.private_key_pem)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is never readable by others, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
