"""A real cluster with the chart installed, for the whole session; a namespace for each test.

`CLUSTER=current` takes the current kubeconfig's cluster instead of making one.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_cluster.builds.images import Image
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tests.e2e.deployments import is_admitted
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl
from tests.failures.clusters import running, shown_elsewhere
from tests.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, Storage, running_storage
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "di-system"
HERE = Path(__file__).parent
# The first looks at the services as they were installed, the last but one gives the allocator other
# arguments, and the last ends the release.
ORDER = {"test_install.py": 1, "test_sharing.py": 3, "test_uninstall.py": 4}
NODES, GPUS = 16, 4
"""Simulated nodes, and what each of them has."""
LENDER, BORROWER = "team-research", "team-product"
"""Namespaces with a queue of the allocator each: who has a guarantee, and who a quota and thrice
the weight, by which the other would have a quarter of the GPUs."""
GUARANTEE, QUOTA = 32, 48
_QUEUES = {
    LENDER: {"guarantee": {"nvidia.com/gpu": GUARANTEE}},
    BORROWER: {"weight": 3, "quota": {"nvidia.com/gpu": QUOTA}},
}
VALUES = (
    "--set",
    "operator.allocator.periodSeconds=5,operator.sweeps=true,history.enabled=true,"
    "history.persistence.enabled=false,dashboard.enabled=true",
    "--set-json",
    f"operator.allocator.arguments.queues={json.dumps(_QUEUES)}",
)
"""What differs from what users install: the allocator looks again every few seconds and has queues,
sweeps run, and what happens is kept for as long as its pod lives."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # These are the items of all folders: those of others stay where they are, before ours.
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    others = [item for item in items if not item.path.is_relative_to(HERE)]
    items[:] = others + sorted(ours, key=lambda item: ORDER.get(item.path.name, 2))


@pytest.fixture(scope="session")
def reporter() -> Reporter:
    return Reporter(sys.stderr)


@pytest.fixture(scope="session")
def cluster(reporter: Reporter) -> Iterator[Cluster | CurrentCluster]:
    """A cluster whose node runs containers."""
    settings = Settings.from_environment(os.environ)
    if settings.cluster == "current":
        current = CurrentCluster(settings=settings, reporter=reporter)
        current.up()
        kubectl = partial(current.binary, "kubectl")
        with shown_elsewhere(kubectl, current.kubeconfig, services=NAMESPACE):
            yield current
        return
    # A name of our own: test sessions run side by side.
    name = f"e2e-{secrets.token_hex(3)}"
    with running(Cluster(name, profile="node", reporter=reporter)) as made:
        yield made


@pytest.fixture(scope="session")
def gpu_nodes(cluster: Cluster | CurrentCluster, release: Release) -> list[str]:
    """Simulated nodes; those of all tests that need some."""
    if isinstance(cluster, CurrentCluster):
        pytest.skip("nodes can be simulated in a cluster of our own only")
    return cluster.add_nodes(NODES, gpus=GPUS)


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster | CurrentCluster) -> Kubectl:
    """kubectl with the administrator's rights."""
    return Kubectl(program=cluster.binary("kubectl"), kubeconfig=cluster.kubeconfig)


@pytest.fixture(scope="session")
def unreleased(cluster: Cluster | CurrentCluster, reporter: Reporter) -> Release:
    """The release before its installation, to build images with."""
    return Release(cluster, root=ROOT, reporter=reporter, namespace=NAMESPACE)


@pytest.fixture(scope="session")
def images(unreleased: Release) -> dict[str, Image]:
    """The images of the services, made from this source tree."""
    return unreleased.build_images()


@pytest.fixture(scope="session")
def bucket(
    request: pytest.FixtureRequest,
    cluster: Cluster | CurrentCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Storage | None]:
    """Where whole logs go; None: pods of a cluster elsewhere do not reach this machine.

    Only the extended tests have one: its program has to be built.
    """
    is_extended = any(item.get_closest_marker("extended") for item in request.session.items)
    if isinstance(cluster, CurrentCluster) or not is_extended:
        yield None
        return
    program, folder = cluster.binary("versitygw"), tmp_path_factory.mktemp("storage")
    with running_storage(program, folder, host=cluster.host_address) as storage:
        yield storage


@pytest.fixture(scope="session")
def values(bucket: Storage | None) -> list[str]:
    """Arguments of helm: what differs from what users install."""
    if bucket is None:
        return [*VALUES]
    storage = {"bucket": BUCKET, "endpoint": bucket.endpoint, "existingSecret": "logs-bucket"}
    told = ",".join(f"history.objectStorage.{key}={value}" for key, value in storage.items())
    return [*VALUES, "--set", told]


@pytest.fixture(scope="session")
def release(
    unreleased: Release, images: dict[str, Image], kubectl: Kubectl, values: list[str]
) -> Release:
    """The installed chart, every pod ready, in a namespace of the strictest Pod Security level."""
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    kubectl(
        *("--namespace", NAMESPACE, "create", "secret", "generic", "logs-bucket"),
        *(f"--from-literal={key}={value}" for key, value in keys.items()),
    )
    unreleased.install(images, arguments=values)
    probe = job("probe", namespace="default", tasks=[task("learner", image="a", program="")])
    # The node's proxy has the pods' addresses a moment after helm has seen them ready.
    wait_until(lambda: is_admitted(kubectl, probe))
    return unreleased


@pytest.fixture(scope="session", autouse=True)
def unmounted(release: Release, kubectl: Kubectl, python_image: str) -> Iterator[str]:
    """The namespace of a job whose volume is nowhere.

    It is told of when that has lasted for a minute, so it is made before the tests that take time.
    """
    learner = task("learner", image=python_image, program=sleep(3600), replicas=2)
    spec = learner["template"]["spec"]
    spec["volumes"] = [{"name": "data", "configMap": {"name": "none"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    with fresh_namespace(kubectl) as name:
        kubectl.apply(job("unmounted", namespace=name, tasks=[learner]))
        yield name


@pytest.fixture
def namespace(release: Release, kubectl: Kubectl) -> Iterator[str]:
    """A fresh namespace for jobs, deleted with all that is in it."""
    with fresh_namespace(kubectl) as name:
        yield name


@pytest.fixture
def shell(kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in an empty folder, with the administrator's kubeconfig, and kubectl for `di`."""
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    monkeypatch.setenv("PATH", str(kubectl.program.parent), prepend=os.pathsep)
    monkeypatch.delenv("DI_HISTORY_URL", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def said(shell: None, namespace: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command of `di` in the test's namespace, which has to succeed; returns its output."""

    def command(*line: str) -> str:
        capsys.readouterr()
        code = run([*line, "--namespace", namespace])
        captured = capsys.readouterr()
        assert code == ExitCode.DONE, captured.err
        return captured.out

    return command


@contextmanager
def fresh_namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace of its own, for a test or for a file of them."""
    with named_namespace(kubectl, f"e2e-{secrets.token_hex(4)}") as name:
        yield name


@contextmanager
def named_namespace(kubectl: Kubectl, name: str) -> Iterator[str]:
    """A namespace of a name that something else gives."""
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def python_image(images: dict[str, Image], release: Release) -> str:
    """An image with Python that every node has."""
    return images["server"].reference
