"""Services of tasks: connections go to those of a task's pods that are ready, in turn."""

from __future__ import annotations

import random

import pytest

from di_local.addresses import Names, take_network
from tests.ports import held_port
from tests.unit.local.machine import Machine, job, played, task

_SERVER = """
import os, socket
own = os.environ["DI_NODES"].split(",")[int(os.environ["DI_RANK"])]
listener = socket.create_server((own, 8000))
while True:
    there, _ = listener.accept()
    with there:
        asked = there.makefile("rb").read()
        there.sendall(asked + os.environ["DI_TASK_RANK"].encode())
"""
_CLIENT = """
import os, socket, time
host, port = os.environ["DI_COLLECTOR_SERVICE"].split(":")
seen = set()
while len(seen) < 2:
    try:
        with socket.create_connection((host, int(port))) as there:
            there.sendall(b"pod ")
            there.shutdown(socket.SHUT_WR)
            seen.add(there.makefile("rb").read())
    except OSError:
        time.sleep(0.02)
    seen.discard(b"")
print(sorted(seen))
"""


@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/services-of-tasks-tcp")
@played
async def test_a_service_passes_connections_on_to_all_ready_pods(here: Machine) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8000}]
    serving = task(_SERVER, "collector", replicas=2, service={"ports": ports})
    here.submit(job(task(_CLIENT), serving))
    assert (await here.ended())["phase"] == "Succeeded"
    assert here.said("tiny-learner-0").strip() == "[b'pod 0', b'pod 1']"


_ON_ALL = """
import _socket, os
# As a program that is not Python: it listens on all addresses of the machine.
listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
import time
time.sleep(0.5)  # its imports
_socket.socket.bind(listener, ("0.0.0.0", PORT))
listener.listen()
while True:
    descriptor, _ = listener._accept()
    there = _socket.socket(fileno=descriptor)
    there.send(b"head")
    there.close()
"""
_ASKS = """
import os, socket, time
host, port = os.environ["DI_COLLECTOR_SERVICE"].split(":")
while True:
    try:
        with socket.create_connection((host, int(port))) as there:
            print(there.recv(10).decode())
            break
    except OSError:
        time.sleep(0.02)
"""


@played
async def test_a_service_leaves_its_port_to_a_program_on_all_addresses(here: Machine) -> None:
    with held_port() as port:
        ports = [{"name": "head", "port": port, "targetPort": port}]
        serving = task(_ON_ALL.replace("PORT", str(port)), "collector", service={"ports": ports})
        here.submit(job(task(_ASKS), serving))
        assert (await here.ended())["phase"] == "Succeeded"
        assert here.said("tiny-learner-0").strip() == "head"


def test_a_service_has_an_address_and_an_unprivileged_port() -> None:
    network = take_network(random.Random())
    network.listener.close()
    names = Names(network, namespace="default", job="tiny")
    service = "tiny-collector.default.svc.cluster.local"
    assert names.replaced(f"{service}:80 {service}:8000 {service}") == (
        f"{network.prefix}.10:20080 {network.prefix}.10:8000 {network.prefix}.10"
    )
