"""Kubeflow's training-operator, tuned as a user who wants the most of it tunes it.

It runs PyTorchJobs of workers alone, which get neither a master's variables nor an init container
that waits for one: the least that it makes of a job. Like ours it runs without its webhook, and
logs in as a pod does.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from di_kube.errors import ApiError
from di_kube.resources import NAMESPACES, SECRETS, Resource
from tests.waiting import wait_until_async
from tools.benchmarks.definitions import apply_definition
from tools.benchmarks.workloads import JobType, template

Object = dict[str, Any]
PROGRAM: Final = "training-operator"
THREADS: Final = 10
REQUESTS_PER_SECOND: Final = 1000
PYTORCHJOBS: Final = Resource(
    group="kubeflow.org", version="v1", plural="pytorchjobs", kind="PyTorchJob"
)
_NAMESPACE: Final = "kubeflow"
_SECRET: Final = "training-operator-webhook-cert"
_CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"  # its own choice
# It waits for the files that a kubelet would bring from its Secret. They are read where it wants
# them, in a /tmp that is the process's own.
_MOUNT: Final = (
    'mkdir /run/certificates && mount --bind "$0" /run/certificates && mount -t tmpfs none /tmp'
    f" && mkdir -p {_CERTIFICATES} && mount --bind /run/certificates {_CERTIFICATES}"
    ' && exec "$@"'
)


def _manifest(name: str, replicas: int, run_for: float | None) -> Object:
    worker = {
        "replicas": replicas,
        "restartPolicy": "Never",
        "template": template("pytorch", run_for),
    }
    return {
        "apiVersion": f"{PYTORCHJOBS.group}/{PYTORCHJOBS.version}",
        "kind": PYTORCHJOBS.kind,
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }


def _phase(job: Object) -> str | None:
    """The type of the latest condition that is true: what its own printer column shows."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((one["type"] for one in reversed(conditions) if one["status"] == "True"), None)


PYTORCHJOB: Final = JobType(
    resource=PYTORCHJOBS,
    label="training.kubeflow.org/job-name",
    manifest=_manifest,
    phase=_phase,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A training-operator that can be started."""

    program: Path
    certificates: Path
    client: KubeClient

    @classmethod
    async def installed(cls, cluster: Cluster, client: KubeClient, folder: Path) -> Self:
        """Install its CRD and the Secret that it fills.

        Args:
            cluster: builds the program if it is not in the cache.
            folder: for its certificates; is made.

        Raises:
            ClusterError: it cannot be built.
        """
        for path in cluster.manifests(PROGRAM):
            await apply_definition(client, path)
        await client.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        await client.create(SECRETS, {"metadata": {"name": _SECRET}}, _NAMESPACE)

        async def is_served() -> bool:
            try:
                await client.list(PYTORCHJOBS, _NAMESPACE)
            except ApiError:
                return False
            return True

        await wait_until_async(is_served, what="PyTorchJobs")
        folder.mkdir()
        return cls(program=cluster.binary(PROGRAM), certificates=folder, client=client)

    def command(self, namespace: str, port: int) -> Sequence[str]:
        """The command that runs it for a namespace; `port` is its webhook's."""
        program = [
            str(self.program),
            f"--namespace={namespace}",
            "--enable-scheme=pytorchjob",
            f"--controller-threads={THREADS}",
            f"--kube-api-qps={REQUESTS_PER_SECOND}",
            f"--kube-api-burst={REQUESTS_PER_SECOND}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            f"--webhook-server-port={port}",
        ]
        return ["sh", "-c", _MOUNT, str(self.certificates), *program]

    async def mount_secret(self) -> None:
        """Bring it the files of its Secret, once it has filled that."""

        async def is_filled() -> bool:
            data = (await self.client.get(SECRETS, _SECRET, _NAMESPACE)).get("data")
            for name, text in (data or {}).items():
                (self.certificates / name).write_bytes(base64.b64decode(text))
            return bool(data)

        await wait_until_async(is_filled, what="the rival's certificates")
