"""metrics-server as users have it: upstream's manifests, applied to a real node."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from di_cluster.builds.binaries import component_of
from di_cluster.cluster import Cluster
from tests.e2e.kubectl import Kubectl
from tests.waiting import START_SECONDS

_NAME: Final = "metrics-server"
_UPSTREAM_IMAGE: Final = "gcr.io/k8s-staging-metrics-server/metrics-server"
_API: Final = "apiservice/v1beta1.metrics.k8s.io"
_AUTHORITY: Final = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"


@contextmanager
def metrics_server(cluster: Cluster, kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """Run metrics-server in the cluster; nothing of it is left afterwards.

    Args:
        cluster: has a real node.
        kubectl: with the administrator's rights.
        folder: an empty one, for the image's files and the manifests.
    """
    shutil.copytree(cluster.manifests(_NAME)[0].parent, folder / "base")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(_changes(_load(cluster, folder))))
    manifests = ("--kustomize", str(folder))
    try:
        kubectl("apply", *manifests)
        # It is available once it has measured all nodes.
        kubectl(
            *("wait", _API, "--for=condition=Available", f"--timeout={START_SECONDS:.0f}s"),
            seconds=START_SECONDS + 60,
        )
        yield
    finally:
        # First: while a registered API gives no response, no namespace can be deleted.
        kubectl("delete", _API, "--ignore-not-found")
        kubectl("delete", *manifests, "--ignore-not-found")


def _load(cluster: Cluster, folder: Path) -> str:
    """Put an image of the program alone on every node, as upstream's is; return its name."""
    context = folder / "image"
    context.mkdir()
    shutil.copy(cluster.binary(_NAME), context)
    (context / "Dockerfile").write_text(f'FROM scratch\nCOPY {_NAME} /\nENTRYPOINT ["/{_NAME}"]\n')
    image = cluster.build_image(context, f"{_NAME}:{component_of(_NAME).version}")
    cluster.load_image(image)
    return image.reference


def _changes(image: str) -> dict[str, object]:
    """What differs from upstream's manifests: the image, and how kubelets' certificates are
    verified, without which a user would need `--kubelet-insecure-tls`."""
    name, _, tag = image.rpartition(":")
    argument = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/args/-",
        "value": f"--kubelet-certificate-authority={_AUTHORITY}",
    }
    return {
        "resources": ["base"],
        "images": [{"name": _UPSTREAM_IMAGE, "newName": name, "newTag": tag}],
        "patches": [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump([argument])}],
    }
