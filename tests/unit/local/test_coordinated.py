"""A coordinator and the pods that it asks for, as processes here."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

import pytest

from di_kube.resources import DIJOBS, PODS
from di_local import addresses
from di_local.api.objects import Object
from di_local.hosts import FILE
from tests.unit.local.machine import FOR_EVER, Machine, played

COLLECTOR = "tiny-collector-abcde"


def _role(program: str, *options: str) -> Object:
    command = [sys.executable, *options, "-c", program]
    container = {"name": "di-container", "image": "none", "command": command}
    spec = {"terminationGracePeriodSeconds": 5, "containers": [container]}
    return {"template": {"spec": spec}}


def coordinated(coordinator: str, collector: str) -> Object:
    roles = {"coordinator": _role(coordinator), "collector": _role(collector, "-S")}
    metadata = {"name": "tiny", "namespace": "default"}
    return {"metadata": metadata, "spec": {"coordinated": roles}}


def _ask_for(here: Machine, names: Sequence[str]) -> None:
    """As di-server does for the coordinator."""
    job = here.job()
    replicas = [{"name": name, "role": "collector"} for name in names]
    spec = {**job["spec"], "coordinated": {**job["spec"]["coordinated"], "replicas": replicas}}
    here.objects.replace(DIJOBS, "default", "tiny", {**job, "spec": spec})


@played
async def test_a_job_ends_with_its_coordinator_and_other_pods_restart(here: Machine) -> None:
    gate = here.folder / "gate"
    os.mkfifo(gate)
    here.submit(coordinated(f"open({str(gate)!r}).read()", "pass"))
    await here.until(lambda: here.is_ready("tiny-coordinator"))
    _ask_for(here, [COLLECTOR])

    def again() -> bool:
        status = (here.pod(COLLECTOR) or {}).get("status") or {}
        return any(each["restartCount"] > 1 for each in status.get("containerStatuses") or ())

    await here.until(again)
    await asyncio.to_thread(gate.write_text, "go")
    assert (await here.ended())["phase"] == "Succeeded"


@pytest.mark.proves("local.md#where-things-are/names-hosts")
@played
async def test_the_hosts_file_has_the_names_of_running_pods(here: Machine) -> None:
    def hosts() -> dict[str, str]:
        lines = (here.folder / FILE).read_text().splitlines()
        return {name: address for address, name in map(str.split, lines)}

    here.submit(coordinated(FOR_EVER, FOR_EVER))
    await here.until(lambda: here.is_ready("tiny-coordinator"))
    _ask_for(here, [COLLECTOR])
    await here.until(lambda: here.is_ready(COLLECTOR))
    pod = here.pod(COLLECTOR)
    assert pod is not None
    known = hosts()
    assert set(known) == {"tiny-coordinator.default", f"{COLLECTOR}.default"}
    assert known[f"{COLLECTOR}.default"] == pod["status"]["podIP"]
    _ask_for(here, ["tiny-collector-fghij"])
    await here.until(lambda: here.pod(COLLECTOR) is None)
    await here.until(lambda: here.is_ready("tiny-collector-fghij"))
    assert set(hosts()) == {"tiny-coordinator.default", "tiny-collector-fghij.default"}


@pytest.fixture
def one_more_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the coordinator and one pod more."""
    monkeypatch.setattr(addresses, "_LAST", addresses._FIRST + 1)


@pytest.mark.usefixtures("one_more_address")
@played
async def test_a_pod_without_a_free_address_waits(here: Machine) -> None:
    first, second = "tiny-collector-aaaaa", "tiny-collector-bbbbb"
    here.submit(coordinated(FOR_EVER, FOR_EVER))
    await here.until(lambda: here.is_ready("tiny-coordinator"))
    _ask_for(here, [first])
    await here.until(lambda: here.is_ready(first))
    _ask_for(here, [first, second])

    def refused() -> list[str]:
        found = here.objects.list(PODS)
        conditions = [
            each for pod in found for each in (pod.get("status") or {}).get("conditions") or ()
        ]
        return [each["message"] for each in conditions if each.get("reason") == "Unschedulable"]

    (said,) = await here.until(refused)
    assert second in said
    _ask_for(here, [second])
    await here.until(lambda: here.is_ready(second))
