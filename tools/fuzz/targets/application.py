"""Requests to di-server's application, over jobs in memory instead of an API server."""

from __future__ import annotations

import functools
import json
from typing import Any, Final

from di_kube.resources import AGGREGATOR_CONFIGS
from di_server.coordination import operations as coordination_operations
from di_server.jobs.operations import OPERATIONS, PREFIX
from di_server.members import exchange
from di_server.members import operations as member_operations
from di_server.model.references import ConfigRef
from di_server.rest.operation import Operation
from tests.unit.server.fakes import Harness, coordinated, job, make_harness, pod, replica, watch

HEAD: Final = 1
"""Bytes before the body or query; they choose what is asked."""
_ANSWERED: Final = frozenset({200, 400, 404, 409, 413, 422})
_CONFIG: Final = ConfigRef("rl", "aggregators")
_AGGREGATOR: Final = "led-aggregator-bbbbb"
_TASKS, _LED = "cartpole", "led"


_BELOW: Final = {
    "": "",
    "task": "/learner",
    "pod": "/cartpole-collector-0",
    "dataset": "/prompts",
}


_ROUTES: Final[tuple[tuple[Operation, str], ...]] = (
    *(
        (each, f"{PREFIX}/rl.{_TASKS}/{each.resource}{_BELOW[each.below]}")
        for each in (*OPERATIONS, *member_operations.OPERATIONS)
    ),
    (member_operations.EXCHANGE, exchange.PATH),
    *(
        (each, f"{coordination_operations.PREFIXES[0]}/{each.resource}")
        for each in coordination_operations.OPERATIONS
    ),
)


def request(data: bytes) -> None:
    """Every body and query gets an answer of the one shape; a refusal leaves the jobs alone."""
    operation, path = _ROUTES[(data[0] if data else 0) % len(_ROUTES)]
    harness = _harness()
    _put_back(harness)
    before = _specs(harness)
    if operation.body is None:
        answer = harness.client.open(
            path, method=operation.method, query_string=data[HEAD:].decode("latin-1")
        )
    else:
        answer = harness.client.open(path, method=operation.method, data=data[HEAD:])
    assert answer.status_code in _ANSWERED, answer.text
    said = json.loads(answer.data)
    assert list(said) == ["success", "code", "message", "data"]
    assert said["success"] == (answer.status_code == 200)
    if answer.status_code != 200:
        assert "'" not in said["message"]
        assert said["message"]
        assert _specs(harness) == before
    replicas = harness.job(_LED)["spec"]["coordinated"]["replicas"]
    assert len(replicas) == len({each["name"] for each in replicas})


@functools.cache
def _harness() -> Harness:
    return make_harness(rate=1e9, burst=1_000_000, config=_CONFIG)


def _put_back(harness: Harness) -> None:
    """One job of each kind, as they were before the request that came before."""
    metadata = {"name": _CONFIG.name, "namespace": _CONFIG.namespace}
    harness.kube.put(AGGREGATOR_CONFIGS, {"metadata": metadata})
    harness.add(
        job(_TASKS),
        coordinated(
            replica("c1"),
            replica(_AGGREGATOR, "aggregator"),
            replica("a1", "ddp-learner", aggregator=_AGGREGATOR),
            name=_LED,
            uid="uid-2",
        ),
    )
    harness.add_pods(pod("cartpole-collector-0", 0, "10.0.0.1"))
    watch(harness)


def _specs(harness: Harness) -> list[Any]:
    return [json.dumps(harness.job(name)["spec"]) for name in (_TASKS, _LED)]
