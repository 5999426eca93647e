"""Whatever the environment holds, or comes over the wire, there are no errors but the package's."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from di_api import names
from di_orchestrator import Coordinator, DIError, Job
from di_orchestrator.server.api import Api
from di_orchestrator.server.client import run
from di_orchestrator.server.exchange import Answer, Exchange, Patience, Pause, Request
from tests.unit.sdk.conftest import LEARNER

VARIABLES = sorted(
    {held for name, held in vars(names).items() if name.startswith("ENV_")}
    | {names.task_nodes_env("learner")}
)
TEXTS = st.sampled_from(["", "0", "1", "-1", "x", "a:b", "a/b", "9" * 30, "\u0663", "a,b"])
KEYS = [
    *("task", "replicas", "pod", "rank", "address", "members", "gone", "complete", "says"),
    "batchSize",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
ASKED: dict[str, Callable[[Api], Exchange[Any]]] = {
    "scale": lambda api: api.scale("collector", 1),
    "scale_to": lambda api: api.scale_to(None, 1),
    "remove": lambda api: api.remove(["a"]),
    "replicas": lambda api: api.replicas(),
    "report": lambda api: api.report({}, 1),
    "peers": lambda api: api.peers("../x?"),
    "say": lambda api: api.say({}),
    "members": lambda api: api.members(None),
}


@given(st.dictionaries(st.sampled_from(VARIABLES), TEXTS, max_size=6))
@example({"DI_JOB_ID": "a/"})
def test_any_environment_is_a_job_or_a_package_error(odd: dict[str, str]) -> None:
    for environment in (odd, {**LEARNER, **odd}):
        with suppress(DIError):
            job = Job.of(environment)
            job.addresses("learner")
            job.world()
            assert job.process_group is None or job.process_group.master_address


def odd_server(data: Any) -> Callable[[Request], Answer]:
    return lambda _: Answer(200, json.dumps({"data": data}).encode())


@pytest.mark.parametrize("asked", ASKED)
@given(data=JSON)
@example(data={"replicas": float("inf")})
@example(data=[[[]]])
def test_any_answer_is_a_result_or_a_package_error(asked: str, data: Any) -> None:
    api = Api("rl/x", "x-learner-0", patience=Patience(0, Random(1)))
    with suppress(DIError):
        run(ASKED[asked](api), odd_server(data))


@given(JSON)
def test_any_answer_to_a_coordinator_is_a_result_or_a_package_error(data: Any) -> None:
    with suppress(DIError):
        Coordinator(odd_server(data), namespace="rl", pod="x").replicas()


@pytest.mark.parametrize(
    "follow",
    [
        lambda api: api.next_peers("a", None),
        lambda api: api.next_world("a", 1),
        lambda api: api.next_members(None, None),
    ],
    ids=["peers", "worlds", "members"],
)
def test_watching_continues_after_a_bad_answer(follow: Callable[[Api], Exchange[Any]]) -> None:
    exchange = follow(Api("rl/x", "x-learner-0", patience=Patience(0, Random(1))))
    asked, step = 0, next(exchange)
    while asked < 3:
        if isinstance(step, Pause):
            step = exchange.send(None)
        else:
            asked += 1
            step = exchange.send(Answer(200, b'{"data": 7}'))
