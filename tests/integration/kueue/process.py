"""Kueue as a process of its own on this machine, beside an API server that calls it by URL.

Its webhooks cannot be switched off, and its kinds are converted by them. Those of its webhooks that
are for kinds of others (Jobs, Pods, Deployments, ...) are not registered: it manages no kind here.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from di_certs.files import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY, write_certificates
from tests.failures.sources import shown_log
from tests.ports import held_ports
from tests.waiting import START_SECONDS, STOP_SECONDS, answers_well, wait_until

Object = dict[str, Any]
GROUP = "kueue.x-k8s.io"
NAMESPACE = "kueue-system"
"""Its own."""
_FRAMEWORK = "DIJob.v2alpha1.diengine.opendilab.org"
# Their stored version needs no conversion, but the API server wants to know who would do it.
_CONVERTED = {"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"}
_METRICS_CERTIFICATES = "kueue/metrics/certs"
"""Below /etc; no setting says another place."""


class KueueProcess:
    """One Kueue, started, ended and started again on the same ports with the same certificates.

    Args:
        binary: the program.
        manifests: its CRDs and webhook configurations as its own deployment has them.
        kubeconfig: of an administrator.
        host: this machine's address as the API server sees it.
        ports: two of `host`, for webhooks and for probes.
        folder: gets certificates, configuration and log.
    """

    def __init__(
        self,
        *,
        binary: Path,
        manifests: Sequence[Path],
        kubeconfig: Path,
        host: str,
        ports: Sequence[int],
        folder: Path,
    ) -> None:
        self._binary = binary
        self._kubeconfig = kubeconfig
        self._host = host
        self._folder = folder
        self._port, self._health_port = ports
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "kueue.log"
        certificates = self._certificates
        write_certificates(certificates, [host], now=datetime.now(UTC), lifetime=timedelta(days=1))
        metrics = folder / "etc" / _METRICS_CERTIFICATES
        metrics.mkdir(parents=True)
        for name in (CERTIFICATE, PRIVATE_KEY):
            (metrics / name).write_bytes((certificates / name).read_bytes())
        self._bodies = [
            body
            for path in manifests
            for body in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)
            if body
        ]

    @property
    def _certificates(self) -> Path:
        return self._folder / "certs"

    @property
    def pid(self) -> int:
        """Of the one that runs."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def crds(self) -> list[Object]:
        """Its kinds, converted by this process."""
        crds = [each for each in self._bodies if each["kind"] == "CustomResourceDefinition"]
        for crd in crds:
            if crd["spec"]["names"]["plural"] in _CONVERTED:
                webhook: Object = {"clientConfig": self._client("/convert")}
                webhook["conversionReviewVersions"] = ["v1"]
                crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return crds

    def webhook_configurations(self, name: str) -> list[Object]:
        """The mutating and the validating one of its own kinds, both called `name`."""
        found = []
        for body in self._bodies:
            if body["kind"].endswith("WebhookConfiguration"):
                webhooks = [
                    {**each, "clientConfig": self._client(each["clientConfig"]["service"]["path"])}
                    for each in body["webhooks"]
                    if all(rule["apiGroups"] == [GROUP] for rule in each["rules"])
                ]
                found.append({**body, "metadata": {"name": name}, "webhooks": webhooks})
        return found

    def start(self, **configuration: Any) -> None:
        """Start it, with further fields of its Configuration; ready when this returns."""
        assert self._process is None, "it runs"
        path = self._folder / "configuration.yaml"
        # JSON is YAML.
        path.write_text(json.dumps(self._configuration() | configuration, indent=2))
        # The program reads certificates below /etc: it alone sees a folder of ours there.
        command = 'mount --bind "$0" /etc && exec "$@"'
        inside = [str(self._folder / "etc"), str(self._binary), "--config", str(path)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", command, *inside],
                env={**os.environ, "KUBECONFIG": str(self._kubeconfig)},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until(self._is_ready, START_SECONDS, what=f"Kueue, see {self.log}")

    def stop(self) -> None:
        """Ask it to end as the kubelet does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    @contextmanager
    def configured(self, **configuration: Any) -> Iterator[None]:
        """Have it run with further fields of its Configuration while the block does."""
        self.stop()
        try:
            self.start(**configuration)
            yield
        finally:
            self.stop()
            self.start()

    def _end(self, by: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(STOP_SECONDS)
            self._process = None

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"Kueue has ended:\n{self.log.read_text()[-4000:]}")
        return answers_well(f"http://{self._host}:{self._health_port}/readyz")

    def _client(self, path: str) -> Object:
        authority = (self._certificates / CA_CERTIFICATE).read_bytes()
        url = f"https://{self._host}:{self._port}{path}"
        return {"url": url, "caBundle": base64.b64encode(authority).decode()}

    def _configuration(self) -> Object:
        return {
            "apiVersion": f"config.{GROUP}/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{self._host}:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": self._host,
                "port": self._port,
                "certDir": str(self._certificates),
            },
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["batch/job"]},
            "namespace": NAMESPACE,
            "multiKueue": {"externalFrameworks": [{"name": _FRAMEWORK}]},
            "clientConnection": {"qps": 300, "burst": 500},
            # An aggregated API server, which nobody could call here.
            "featureGates": {"VisibilityOnDemand": False},
        }


@contextmanager
def kueue_process(
    *, binary: Path, manifests: Sequence[Path], kubeconfig: Path, host: str, folder: Path
) -> Iterator[KueueProcess]:
    """A Kueue that does not run yet; it does not any more when the block has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    with held_ports(2) as ports:
        kueue = KueueProcess(
            binary=binary,
            manifests=manifests,
            kubeconfig=kubeconfig,
            host=host,
            ports=ports,
            folder=folder,
        )
        try:
            with shown_log(kueue.log):
                yield kueue
        finally:
            kueue.kill()
