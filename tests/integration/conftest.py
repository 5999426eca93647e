"""A real API server for the whole test session, and a fresh namespace for each test.

`CLUSTER=current` takes the current kubeconfig's cluster instead of making one.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from di_api.crd.conversion import with_conversion
from di_cluster.cluster import Cluster
from di_cluster.settings import Settings
from di_kube.client import KubeClient
from di_kube.config import KubeConfig, load_config
from di_kube.errors import ApiError, NotFound, Throttled
from di_kube.resources import CRDS, NAMESPACES, SERVICE_ACCOUNTS
from di_kube.wire import APPLY_PATCH
from tests.failures.clusters import running
from tests.integration.known_state import KnownState, delete_jobs
from tests.waiting import DEADLINE, wait_until_async

ROOT = Path(__file__).resolve().parents[2]
CRD_FILE = ROOT / "charts/di-orchestrator/files/dijobs-crd.yaml"


def definition(name: str = CRD_FILE.stem) -> Any:
    """A definition of the chart, which the caller may change."""
    # libyaml takes a tenth of the time.
    return yaml.load(CRD_FILE.with_name(f"{name}.yaml").read_text(), Loader=yaml.CSafeLoader)


class ApiServer(Protocol):
    """What tests may use of the cluster, whoever made it."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def host_address(self) -> str:
        """This machine's address as the API server sees it; webhooks are served on it."""

    def binary(self, program: str) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentCluster:
    """The cluster of the current kubeconfig."""

    kubeconfig: Path
    host_address: str

    def binary(self, program: str) -> Path:
        return Cluster().binary(program)


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """kube-apiserver, etcd and the controllers; no node runs anything."""
    settings = Settings.from_environment(os.environ)
    if settings.cluster == "current":
        yield CurrentCluster(kubeconfig=settings.kubeconfig, host_address=settings.host_address)
        return
    # A name of our own: test sessions run side by side.
    with running(Cluster(f"test-{secrets.token_hex(3)}", profile="control-plane")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kube_config(api_server: ApiServer) -> KubeConfig:
    """The administrator's access to the API server."""
    return load_config(str(api_server.kubeconfig))


@pytest.fixture(scope="session")
def crd(kube_config: KubeConfig) -> str:
    """The DIJob CRD, installed and served; the fixture's value is its name."""
    body = definition()
    asyncio.run(install_crd(kube_config, body))
    name: str = body["metadata"]["name"]
    return name


@pytest.fixture(scope="session")
def job_tasks(kube_config: KubeConfig) -> None:
    """The definition of DIJobTasks, installed and served."""
    asyncio.run(install_crd(kube_config, definition("dijobtasks-crd")))


@pytest.fixture(scope="session")
def sweeps(kube_config: KubeConfig) -> None:
    """The definition of DISweeps, installed and served."""
    asyncio.run(install_crd(kube_config, definition("disweeps-crd")))


@pytest.fixture(scope="session")
def job_templates(kube_config: KubeConfig) -> None:
    """The definitions of both kinds of templates, installed and served."""
    for name in ("dijobtemplates-crd", "clusterdijobtemplates-crd"):
        asyncio.run(install_crd(kube_config, definition(name)))


@pytest.fixture(scope="session")
def known_state(
    kube_config: KubeConfig, crd: str, job_tasks: None, job_templates: None, sweeps: None
) -> KnownState:
    """The cluster-scoped objects before the first test."""

    async def take() -> KnownState:
        async with patient(kube_config) as client:
            return await KnownState.of(client)

    return asyncio.run(take())


@pytest.fixture(scope="module", autouse=True)
def _restored(request: pytest.FixtureRequest) -> Iterator[None]:
    """After a file that uses the session's API server, what it left in the cluster is deleted.

    Not in a cluster of the user's, where others create objects too.
    """
    files = [item for item in request.session.items if item.path == request.path]
    # Not `kube_config`: folders with an API server of their own have another one of that name,
    # and `known_state` of the session cannot use theirs.
    uses = any("api_server" in getattr(item, "fixturenames", ()) for item in files)
    if not uses or isinstance(request.getfixturevalue("api_server"), CurrentCluster):
        yield
        return
    state: KnownState = request.getfixturevalue("known_state")
    yield
    config: KubeConfig = request.getfixturevalue("kube_config")

    async def restore() -> None:
        async with patient(config) as client:
            await state.restore(client)

    asyncio.run(restore())


@pytest.fixture
def namespace(kube_config: KubeConfig) -> Iterator[str]:
    """A fresh namespace that pods can be created in."""
    with fresh_namespace(kube_config) as name:
        yield name


@contextmanager
def fresh_namespace(config: KubeConfig) -> Iterator[str]:
    """A namespace of its own, for a test or for a file of them."""
    with named_namespace(config, f"test-{secrets.token_hex(5)}") as name:
        yield name


@contextmanager
def named_namespace(config: KubeConfig, name: str) -> Iterator[str]:
    """A namespace of a name that something else gives."""
    asyncio.run(_create_namespace(config, name))
    yield name
    asyncio.run(_delete_namespace(config, name))


def patient(config: KubeConfig) -> KubeClient:
    """A client of a test, which waits for a busy API server."""
    return KubeClient(config=config, timeout=DEADLINE, connect_timeout=DEADLINE)


@contextmanager
def api_server_with_crd(
    kind: str, *arguments: str, feature_gates: Sequence[str] = ()
) -> Iterator[tuple[Cluster, KubeConfig]]:
    """An API server of one's own, with the CRD; nothing of it stays.

    Args:
        kind: of the run; what its name begins with.
        arguments: further ones of the API server.
        feature_gates: features of Kubernetes that are not on by themselves.
    """
    cluster = Cluster(
        f"{kind}-{secrets.token_hex(3)}",
        profile="control-plane",
        api_server_args=arguments,
        feature_gates=feature_gates,
    )
    with running(cluster):
        config = load_config(str(cluster.kubeconfig))
        asyncio.run(install_crd(config, definition()))
        yield cluster, config


async def install_crd(config: KubeConfig, body: dict[str, Any]) -> None:
    name = body["metadata"]["name"]
    async with patient(config) as client:
        await client.patch(
            CRDS, name, body, content_type=APPLY_PATCH, field_manager="tests", force=True
        )

        async def is_served() -> bool:
            found = await client.get(CRDS, name)
            conditions = found.get("status", {}).get("conditions") or []
            return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

        await wait_until_async(is_served, what="the CRD to be Established")
        version = next(v["name"] for v in body["spec"]["versions"] if v["served"])
        path = f"/apis/{body['spec']['group']}/{version}/{body['spec']['names']['plural']}"

        async def answers() -> bool:
            # Established is written a moment before the path is served; in between the answer
            # is 404, then 429 while the storage starts.
            try:
                await client.raw(path)
            except (NotFound, Throttled):
                return False
            return True

        await wait_until_async(answers, what=f"{path} to be served")


async def withdraw_conversion(config: KubeConfig) -> None:
    """Serve the stored version only, whoever has written into the conversion."""
    body = definition()
    versions = {"versions": body["spec"]["versions"]}
    async with patient(config) as client:
        await client.patch(
            CRDS, body["metadata"]["name"], {"spec": {"conversion": None, **versions}}
        )
    await install_crd(config, body)


@contextmanager
def older_versions(config: KubeConfig, client_config: dict[str, Any]) -> Iterator[None]:
    """The versions before the newest are served, converted by the webhook called like that."""
    body = definition()
    asyncio.run(install_crd(config, with_conversion(body, client_config)))
    try:
        yield
    finally:
        asyncio.run(withdraw_conversion(config))


async def _create_namespace(config: KubeConfig, name: str) -> None:
    async with patient(config) as client:
        await client.create(NAMESPACES, {"metadata": {"name": name}})

        async def has_account() -> bool:
            # ServiceAccount admission refuses pods until the controller has made "default".
            try:
                await client.get(SERVICE_ACCOUNTS, "default", name)
            except NotFound:
                return False
            return True

        await wait_until_async(has_account, what=f"the default account of {name}")


async def _delete_namespace(config: KubeConfig, name: str) -> None:
    async with patient(config) as client:
        try:
            await client.delete(NAMESPACES, name)
            await delete_jobs(client, name)
        except ApiError as error:
            raise AssertionError(f"namespace {name} could not be deleted: {error}") from error
