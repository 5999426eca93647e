"""Every port of the release: 300 slow clients of one address stop no honest one, of either family.

The ports come from the chart. One that it gets and that is not in `PORTS` fails here, and so does
one on which a service listens and of which the chart says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from di_cluster.cluster import Cluster
from di_kube.config import KubeConfig
from tests.chart.chart import Chart
from tests.integration.conftest import ApiServer, fresh_namespace
from tests.integration.released import Port, Released, container_ports, released
from tools.hostile.attackers import AT_NOBODY, KINDS, ONLY_REVIEWS, Plan, attack, goes_with
from tools.hostile.target import Target, request

pytestmark = pytest.mark.usefixtures("crd", "job_tasks")

SLOW = 300
KINDS_OF_SLOW = ["half-request", pytest.param("six-bytes", marks=pytest.mark.extended)]
ASKED = 4
"""Honest requests to each port, half of each family."""
SECONDS = 60.0
"""More than an honest client would wait; nothing is measured."""
TRIED = sorted(KINDS.keys() - AT_NOBODY) if "HOSTILE_SECONDS" in os.environ else KINDS_OF_SLOW
"""By `make hostile` every kind of client that holds on."""
_LONG = 3600.0
_HONEST = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an honest client asks for at a port, and the status of the answer."""

    path: str = "/healthz"
    status: int = 200
    tls: bool = False


PORTS: Mapping[Port, Asked] = {
    ("webhook", 8443): Asked(tls=True),
    ("webhook", 8080): Asked(),
    ("operator", 8080): Asked(),
    ("server", 8443): Asked(tls=True),
    ("server", 8081): Asked(),
    ("server", 8080): Asked(),
    ("server", 8082): Asked(),
    # Without a token.
    ("history", 8443): Asked(path="/v1/jobs", status=401, tls=True),
    ("history", 8080): Asked(path="/v1/jobs", status=401),
    ("history", 8082): Asked(),
    ("dashboard", 8443): Asked(path="/", status=401, tls=True),
    ("dashboard", 8082): Asked(),
}
ADMISSION = ("webhook", 8443)
PROBES = {"webhook": 8080, "operator": 8080, "server": 8082, "history": 8082, "dashboard": 8082}
INSIDE = {("history", 8080)}
"""On the pod's loopback alone, for `kubectl port-forward`: no container port."""


@pytest.fixture(scope="module")
def chart() -> Chart:
    return Chart(helm=Cluster().binary("helm"))


@pytest.fixture(scope="module", params=sorted(PROBES))
def service(
    request: pytest.FixtureRequest,
    chart: Chart,
    api_server: ApiServer,
    kube_config: KubeConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Released]:
    component: str = request.param
    tmp_path = tmp_path_factory.mktemp(component)
    assert kube_config.ca_pem is not None
    (tmp_path / "ca.crt").write_bytes(kube_config.ca_pem)
    with fresh_namespace(kube_config) as namespace:
        # What is in the cluster alone: files of volumes, names of Services, other objects.
        instead = {
            "webhook": {},
            "operator": {
                "DI_OPERATOR_NAMESPACE": namespace,
                "DI_OPERATOR_WATCH_NAMESPACE": namespace,
                "DI_OPERATOR_AGGREGATOR_CONFIG": f"{namespace}/aggregator-config",
                "DI_OPERATOR_KUEUE": "false",
                "DI_OPERATOR_WEBHOOK_SECRET": "",
                "DI_OPERATOR_WEBHOOK_ADMISSION": "",
            },
            "server": {"DI_SERVER_PEERS": "", "DI_SERVER_AGGREGATOR_CONFIG": ""},
            "history": {"DI_HISTORY_DATABASE": f"sqlite:///{tmp_path}/history.db"},
            "dashboard": {
                "DI_DASHBOARD_API_SERVER": kube_config.server,
                "DI_DASHBOARD_API_CA": str(tmp_path / "ca.crt"),
                "DI_DASHBOARD_HISTORY_SERVER": "",
                "DI_DASHBOARD_HISTORY_CA": "",
            },
        }[component]
        with released(
            component,
            chart,
            tmp_path,
            [port for each, port in PORTS if each == component],
            probes=PROBES[component],
            environment={"KUBECONFIG": str(api_server.kubeconfig), **instead},
        ) as found:
            yield found


def target(service: Released, port: int, host: str) -> Target:
    asked = PORTS[service.component, port]
    return Target(
        host=host, port=service.ports[port], tls=asked.tls, request=request("GET", asked.path)
    )


def attacked(service: Released, port: int, kind: str) -> Target:
    """What is asked by those who hold on: of the webhook, expensive reviews."""
    at = target(service, port, _HONEST[socket.AF_INET])
    if kind in ONLY_REVIEWS and (service.component, port) == ADMISSION:
        return replace(at, request=request("POST", "/validate", body=b"{}"))
    return at


async def is_answered(service: Released, port: int, host: str) -> bool:
    """Whether an honest client gets its answer on one of three connections."""
    at = target(service, port, host)
    for _ in range(3):
        # A busy machine may take longer for a handshake than the service allows.
        with contextlib.suppress(OSError):
            async with asyncio.timeout(SECONDS):
                reader, writer = await at.connect(None, tls=at.tls_context())
                try:
                    writer.write(at.request)
                    line = await reader.readline()
                finally:
                    writer.transport.abort()
            if line:
                return line.split(b" ")[1:2] == [b"%d" % PORTS[service.component, port].status]
    return False


@asynccontextmanager
async def beside(service: Released, port: int, kind: str) -> AsyncIterator[None]:
    """Hold a port's connections meanwhile."""
    at, opened = attacked(service, port, kind), asyncio.Event()
    count = 0

    def one_more() -> None:
        nonlocal count
        count += 1
        if count >= SLOW:
            opened.set()

    # An address that another kind has used may be served slowly by now.
    source = f"127.0.1.{1 + sorted(KINDS).index(kind)}"
    plan = Plan(connections=SLOW, seconds=_LONG, source=source, on_open=one_more)
    holding = asyncio.create_task(attack(kind, at, plan))
    try:
        async with asyncio.timeout(SECONDS):
            await opened.wait()
        yield
    finally:
        holding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await holding


async def answered(service: Released) -> dict[int, int]:
    """By port: how many of ASKED honest requests were answered."""
    found = dict.fromkeys(service.ports, 0)
    for number in range(ASKED):
        host = list(_HONEST.values())[number % 2]
        for port in service.ports:
            found[port] += await is_answered(service, port, host)
    return found


@pytest.mark.proves("security.md#clients-that-hold-on/every-port")
def test_every_port_of_the_chart_is_tried_here(chart: Chart) -> None:
    assert container_ports(chart) == PORTS.keys() - INSIDE


@pytest.mark.proves("operations.md#ip-families")
def test_a_service_listens_on_its_ports_alone_for_both_families(service: Released) -> None:
    assert service.listens_on() == set(service.ports)
    assert asyncio.run(answered(service)) == dict.fromkeys(service.ports, ASKED)


@pytest.mark.parametrize("kind", TRIED)
def test_slow_clients_of_one_address_stop_no_other_client(service: Released, kind: str) -> None:
    ports = [port for port in service.ports if goes_with(kind, attacked(service, port, kind))]

    async def run() -> dict[int, dict[int, int]]:
        found = {}
        for port in ports:
            async with beside(service, port, kind):
                found[port] = await answered(service)
        return found

    report = asyncio.run(run())
    print(f"{service.component} beside {SLOW} of {kind}: {report} of {ASKED}", file=sys.stderr)
    everything = dict.fromkeys(service.ports, ASKED)
    assert report == dict.fromkeys(ports, everything)
