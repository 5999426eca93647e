"""The control plane: etcd, API server, controller manager, scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from di_cluster.apiserver import ApiRefused, ApiServer
from di_cluster.box import Box
from di_cluster.network import DOMAIN, Network
from di_cluster.pki import FRONT_PROXY
from di_cluster.waiting import wait_until
from di_cluster.workfolder import WorkFolder, write_json

_ETCD = "https://127.0.0.1:2379"
_ETCD_PEER = "https://127.0.0.1:2380"

# Certificates are asked for by nobody, and each node has its addresses.
_CONTROLLERS_OFF = (
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "node-ipam-controller",
)

# Health is open to everybody, everything else asks for an identity.
_AUTHENTICATION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AuthenticationConfiguration",
    "anonymous": {
        "enabled": True,
        "conditions": [{"path": path} for path in ("/livez", "/readyz", "/healthz")],
    },
}


def etcd_argv(*, binary: Path, data: Path, pki: Path) -> list[str]:
    """Command line of etcd, reachable inside the box only."""
    return [
        str(binary),
        "--name=etcd",
        f"--data-dir={data}",
        # Safe against a killed process, not against a power cut: the data does not outlive the
        # box anyway, and without it every write would wait for the disk.
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=etcd={_ETCD_PEER}",
        f"--cert-file={pki}/etcd.crt",
        f"--key-file={pki}/etcd.key",
        "--client-cert-auth",
        f"--trusted-ca-file={pki}/ca.crt",
        f"--peer-cert-file={pki}/etcd.crt",
        f"--peer-key-file={pki}/etcd.key",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki}/ca.crt",
    ]


def api_server_argv(
    *, binary: Path, network: Network, pki: Path, authentication: Path, extra: Sequence[str]
) -> list[str]:
    """Command line of the API server; `extra` comes last, so it can override."""
    return [
        str(binary),
        f"--bind-address={network.control_plane}",
        f"--advertise-address={network.control_plane}",
        "--secure-port=6443",
        f"--etcd-servers={_ETCD}",
        f"--etcd-cafile={pki}/ca.crt",
        f"--etcd-certfile={pki}/etcd-client.crt",
        f"--etcd-keyfile={pki}/etcd-client.key",
        f"--service-cluster-ip-range={network.services}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--authentication-config={authentication}",
        f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--proxy-client-cert-file={pki}/front-proxy-client.crt",
        f"--proxy-client-key-file={pki}/front-proxy-client.key",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--allow-privileged",
        "--profiling=false",
        "--shutdown-delay-duration=0s",
        *extra,
    ]


def controller_manager_argv(
    *, binary: Path, kubeconfig: Path, pki: Path, volume_plugins: Path
) -> list[str]:
    """Command line of the controller manager, tuned to notice a lost node in 10 s."""
    controllers = ",".join(["*", *(f"-{name}" for name in _CONTROLLERS_OFF)])
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki}/service-account.key",
        f"--root-ca-file={pki}/ca.crt",
        "--profiling=false",
        # The default of 20 requests a second makes the first service account wait three seconds.
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        f"--flex-volume-plugin-dir={volume_plugins}",
        "--node-monitor-period=1s",
        # Nodes renew their lease every two seconds (a quarter of 8 s): five chances.
        "--node-monitor-grace-period=10s",
        # By default an autoscaler looks every 15 s, and has not looked before.
        "--horizontal-pod-autoscaler-sync-period=2s",
        f"--controllers={controllers}",
    ]


def scheduler_config(kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 300, "burst": 600},
    }


class ControlPlane:
    """Starts and checks the control plane inside a box."""

    def __init__(
        self,
        *,
        box: Box,
        network: Network,
        folder: WorkFolder,
        binary: Callable[[str], Path],
        extra_api_server_args: Sequence[str] = (),
        feature_gates: Sequence[str] = (),
    ) -> None:
        self._box = box
        self._network = network
        self._folder = folder
        self._binary = binary
        self._gates = [f"--feature-gates={gate}=true" for gate in feature_gates]
        self._extra = (*self._gates, *extra_api_server_args)
        self.api = ApiServer(folder.kubeconfig)

    def start_api_server(self) -> None:
        """Start etcd and the API server (what runs already is left alone)."""
        pki = self._folder.pki
        authentication = write_json(self._folder.config / "authentication.json", _AUTHENTICATION)
        self._box.start(
            "etcd",
            etcd_argv(binary=self._binary("etcd"), data=self._folder.etcd, pki=pki),
        )
        self._box.start(
            "kube-apiserver",
            api_server_argv(
                binary=self._binary("kube-apiserver"),
                network=self._network,
                pki=pki,
                authentication=authentication,
                extra=self._extra,
            ),
        )

    def wait_for_api_server(self, *, seconds: float = 90) -> None:
        """Wait until the API server can serve.

        Raises:
            ClusterError: etcd or the API server ended; the message has the end of its log.
            TimedOut: it is not ready in time.
        """

        def ready() -> bool:
            self._box.require_alive("etcd")
            self._box.require_alive("kube-apiserver")
            return self.api.ready()

        wait_until(ready, seconds=seconds, what="the API server")

    def start_controllers(self) -> None:
        """Start the controller manager and the scheduler; the API server must be ready."""
        kubeconfigs = self._folder.kubeconfigs
        self._box.start(
            "kube-controller-manager",
            controller_manager_argv(
                binary=self._binary("kube-controller-manager"),
                kubeconfig=kubeconfigs / "kube-controller-manager",
                pki=self._folder.pki,
                volume_plugins=self._folder.config / "volume-plugins",
            )
            + self._gates,
        )
        config = write_json(
            self._folder.config / "scheduler.json",
            scheduler_config(kubeconfigs / "kube-scheduler"),
        )
        self._box.start(
            "kube-scheduler",
            [
                self._binary("kube-scheduler"),
                f"--config={config}",
                "--bind-address=127.0.0.1",
                *self._gates,
            ],
        )

    def wait_for_controllers(self, *, seconds: float = 60) -> None:
        """Wait for the default service account: pods are refused until it is there."""

        def ready() -> bool:
            self._box.require_alive("kube-controller-manager")
            self._box.require_alive("kube-scheduler")
            self.api.get("/api/v1/namespaces/default/serviceaccounts/default")
            return True

        wait_until(
            ready,
            seconds=seconds,
            what="the default service account",
            tolerate=(ApiRefused, OSError),
        )
