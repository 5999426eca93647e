"""Which programs of the machine are taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from di_cluster.builds.binaries import COMPONENTS, Component, component_of, version_fits
from di_cluster.cluster import GO_MODULES
from di_cluster.errors import ClusterError

MODULES = {
    "kubernetes": r"k8s\.io/kubernetes v(\S+)",
    "etcd": r"go\.etcd\.io/etcd/server/v3 v(\S+)",
    "helm": r"helm\.sh/helm/v4 v(\S+)",
    "oras": r"oras\.land/oras v(\S+)",
    "notation": r"github\.com/notaryproject/notation v(\S+)",
    "versitygw": r"github\.com/versity/versitygw v(\S+)",
    "kwok": r"sigs\.k8s\.io/kwok v(\S+)",
    "coredns": r"github\.com/coredns/coredns v(\S+)",
    "scheduler-plugins": r"sigs\.k8s\.io/scheduler-plugins v(\S+)",
    "cert-manager": r"github\.com/cert-manager/cert-manager v(\S+)",
    "kueue": r"sigs\.k8s\.io/kueue v(\S+)",
    "training-operator": r"github\.com/kubeflow/training-operator v(\S+)",
    "kuberay": r"github\.com/ray-project/kuberay/ray-operator v(\S+)",
    "metrics-server": r"sigs\.k8s\.io/metrics-server v(\S+)",
    "prometheus-adapter": r"sigs\.k8s\.io/prometheus-adapter v(\S+)",
    "otel-collector": r"go\.opentelemetry\.io/collector/otelcol v(\S+)",
    "keda": r"github\.com/kedacore/keda/v2 v(\S+)",
}


@pytest.mark.parametrize(
    ("printed", "fits"),
    [
        ("Kubernetes v1.37.1", True),
        ("Kubernetes v1.37.0-rc.1", True),
        ("Client Version: v1.35.9\nKustomize Version: v5.8.1", False),
        ("Kubernetes v2.37.1", False),
        ("Kubernetes v1.3.6", False),
        ("command not found", False),
        ("", False),
    ],
)
def test_a_program_fits_by_its_major_and_minor_version(printed: str, fits: bool) -> None:
    assert version_fits(printed, "1.37.1") is fits


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_the_pinned_version_matches_go_mod(component: Component) -> None:
    text = (Path(GO_MODULES) / component.name / "go.mod").read_text()
    found = re.search(MODULES[component.name], text)
    assert found is not None
    assert found[1] == component.version


def test_kubernetes_is_stamped_with_its_version() -> None:
    stamps = component_of("kubelet").stamps
    assert stamps["k8s.io/component-base/version.gitVersion"] == "v1.37.1"
    assert stamps["k8s.io/component-base/version.gitMinor"] == "37"


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match=r"no program 'kubeadm'.*kubectl"):
        component_of("kubeadm")
