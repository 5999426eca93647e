"""The AggregatorConfig of the installation is kept, and what others made of it is respected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from di_kube.errors import ApiError, Conflict, NotFound
from di_kube.resources import AGGREGATOR_CONFIGS, Resource
from di_operator.cluster.default_aggregator import REPEAT, RETRY, DefaultAggregator
from tests.unit.api.jobs import template
from tests.unit.operator import virtual_time
from tests.unit.operator.virtual_time import VirtualClock

WHERE: Any = {"kind": "AggregatorConfig", "namespace": "di-system", "name": "mine"}
ABSENT = NotFound(**WHERE, code=404, message="no such kind yet")
TAKEN = Conflict(**WHERE, code=409, message="conflict with kubectl-edit")


class Api:
    """Answers each apply with the next of `answers`, then always with the last."""

    def __init__(self, *answers: ApiError | None) -> None:
        self.answers = list(answers)
        self.times: list[float] = []
        self.bodies: list[dict[str, Any]] = []

    async def patch(
        self, resource: Resource, name: str, body: dict[str, Any], namespace: str, **options: Any
    ) -> None:
        assert (resource, name, namespace) == (AGGREGATOR_CONFIGS, "mine", "di-system")
        assert options["content_type"] == "application/apply-patch+yaml"
        # Forced, it would undo what another manager has changed.
        assert not options.get("force")
        self.times.append(asyncio.get_running_loop().time())
        self.bodies.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer


def times_of(api: Api, seconds: float) -> list[float]:
    """When an operator that leads for so long applies."""

    async def scenario() -> None:
        keeper = DefaultAggregator(
            api,  # type: ignore[arg-type]  # all of the client that it uses
            namespace="di-system",
            name="mine",
            template=template(),
            clock=VirtualClock(),
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(keeper.run(), seconds)

    virtual_time.run(scenario())
    return api.times


def test_the_aggregator_config_is_applied_at_every_period() -> None:
    api = Api(None)
    assert times_of(api, 2 * REPEAT + 1) == [0, REPEAT, 2 * REPEAT]
    assert api.bodies[0] == {
        "apiVersion": "diengine.opendilab.org/v1alpha1",
        "kind": "AggregatorConfig",
        "metadata": {"name": "mine"},
        "spec": {"aggregator": {"template": template()}},
    }


def test_a_missing_definition_is_retried_soon() -> None:
    assert times_of(Api(ABSENT, ABSENT, None), REPEAT) == [0, RETRY, 2 * RETRY]


def test_fields_that_another_manager_changed_are_left_alone() -> None:
    assert times_of(Api(TAKEN), REPEAT + 1) == [0, REPEAT]
