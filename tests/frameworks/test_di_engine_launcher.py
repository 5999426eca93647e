"""The OrchestratorLauncher of DI-engine installs the services from the address that it knows."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from di_cluster.cluster import Cluster
from di_cluster.release import TAG, Release
from di_cluster.reporter import Reporter
from di_kube.config import load_config
from tests.e2e.kubectl import Kubectl
from tests.failures.clusters import running
from tests.frameworks.served_addresses import served
from tests.waiting import wait_until
from tools.prepare.environments import DI_ENGINE
from tools.release.bundle import CHART
from tools.release.objects import NAMESPACE, rendered
from tools.release.version import ROOT

SERVICES = ("operator", "webhook", "server")
ADDRESS = (
    "https://raw.githubusercontent.com/opendilab/DI-orchestrator/v2.0.0/config/di-manager.yaml"
)
CERT_MANAGER = "https://github.com/jetstack/cert-manager/releases/download/v1.3.1/cert-manager.yaml"
LAUNCHER = """
import importlib.util, sys, types

file, action = sys.argv[1:]
# The rest of the package imports PyTorch.
utils, helper = types.ModuleType("ding.utils"), types.ModuleType("ding.utils.default_helper")
utils.K8sLauncher, utils.__path__, helper.one_time_warning = object, [], print
sys.modules |= {"ding": types.ModuleType("ding"), "ding.utils": utils}
sys.modules["ding.utils.default_helper"] = helper
spec = importlib.util.spec_from_file_location("ding.utils.orchestrator_launcher", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
if action == "wait":
    module.wait_to_be_ready("di-system", "di-webhook")
else:
    getattr(module.OrchestratorLauncher("v2.0.0"), action)()
"""


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A node on which nothing is installed."""
    name = f"launcher-{secrets.token_hex(3)}"
    with running(Cluster(name, profile="node", reporter=Reporter(sys.stderr))) as cluster:
        yield cluster


def other(image: str) -> str:
    """A stand-in for the file of cert-manager, of which nothing here is needed."""
    labels = {"app": "webhook"}
    container = {
        "name": "webhook",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", "import time; time.sleep(3600)"],
    }
    metadata = {"name": "cert-manager-webhook", "namespace": "cert-manager"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    return yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cert-manager"}},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        ]
    )


@pytest.mark.proves("di-engine.md#its-own-installer/*")
def test_the_launcher_installs_the_services_and_deletes_them(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    kubectl = Kubectl(program=own_cluster.binary("kubectl"), kubeconfig=own_cluster.kubeconfig)
    images = Release(own_cluster, root=ROOT, reporter=Reporter(sys.stderr)).build_images(SERVICES)
    text = rendered(ROOT / CHART, own_cluster.binary("helm"))
    for service, image in images.items():
        own_cluster.load_image(image)
        # As a registry of the user's own has it.
        text, count = re.subn(rf'"opendilab/di-{service}:[^"]+"', f'"{image.reference}"', text)
        assert count
    assert TAG in text
    (launcher,) = DI_ENGINE.python().parents[1].rglob("ding/utils/orchestrator_launcher.py")
    files = {ADDRESS: text, CERT_MANAGER: other(images["server"].reference)}
    with served(files, tmp_path) as found:
        environment = {
            **os.environ,
            **found,
            "KUBECONFIG": str(own_cluster.kubeconfig),
            "NO_PROXY": str(urlsplit(load_config(str(own_cluster.kubeconfig)).server).hostname),
            "PATH": f"{kubectl.program.parent}:{os.environ['PATH']}",
        }

        def launch(action: str) -> str:
            done = subprocess.run(
                [sys.executable, "-c", LAUNCHER, launcher, action],
                env=environment,
                capture_output=True,
                text=True,
                timeout=500,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        launch("create_orchestrator")

        def is_ready() -> bool:
            found = kubectl.get("deployment", "di-webhook", namespace=NAMESPACE)
            return bool(found["status"].get("readyReplicas"))

        # The launcher goes on after two minutes in any case.
        wait_until(is_ready)
        assert "component di-webhook is ready for serving" in launch("wait")
        # What is there already is no error.
        assert "Components already exists" in launch("create_orchestrator")
        launch("delete_orchestrator")
    left = kubectl("get", "customresourcedefinitions", "--output", "name")
    assert "diengine" not in str(left)
