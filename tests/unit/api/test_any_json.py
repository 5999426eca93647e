"""Properties that hold for every JSON value, however strange or large."""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.defaults import defaults_patch, with_defaults
from di_api.difference import first_difference
from di_api.field_error import FieldError
from di_api.validation import load_leniently, validate_job, validate_update
from tests.unit.api.jobs import ALMOST_ALL, Job, coordinated_job, job, of_spec, task
from tests.unit.api.refusals import changed

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["learner", "none", "normal", "a", "-", "\ud800", "n" * 64])
)
JSON = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below),
    max_leaves=8,
)


def objects(*fields: str) -> st.SearchStrategy[Any]:
    """Objects with fields that exist, so that generated values reach the rules behind them."""
    return st.dictionaries(st.sampled_from(fields) | st.text(max_size=3), JSON, max_size=6)


TASKS = objects(
    "name", "type", "replicas", "minReplicas", "maxReplicas", "dependsOn", "_schema"
).flatmap(lambda each: st.sampled_from([each, task() | each, task("none", name="a") | each]))
SPECS = st.builds(
    lambda spec, tasks: spec | ({} if tasks is None else {"tasks": tasks}),
    objects("priority", "cleanPodPolicy", "backoffLimit", "volumes", "suspend", "tasks", "group"),
    st.none() | st.lists(TASKS | JSON, max_size=4),
)
REPLICAS = objects("name", "role", "resources", "generation", "aggregator").flatmap(
    lambda each: st.sampled_from(
        [each, {"role": "aggregator"} | each, each | {"role": "ddp-learner"}]
    )
)
COORDINATED = st.builds(
    lambda coordinated, replicas: {"coordinated": coordinated | {"replicas": replicas}},
    objects("coordinator", "collector", "learner", "priorityClassName"),
    st.lists(REPLICAS | JSON, max_size=3),
)
JOBS = st.builds(
    lambda metadata, spec, status: {"metadata": metadata, "spec": spec, "status": status},
    objects("name", "generateName") | JSON,
    SPECS | COORDINATED | JSON,
    objects("phase") | JSON,
)


@given(JOBS | JSON, JOBS | JSON)
def test_validation_never_raises_and_its_messages_can_be_encoded(old: Any, new: Any) -> None:
    for error in [*validate_job(new), *validate_update(old, new)]:
        assert str(error).encode()
        assert error.message


@pytest.mark.parametrize(
    ("replica", "path"),
    [
        ({"name": [], "role": "aggregator"}, "name"),
        ({"name": "a", "role": "ddp-learner", "aggregator": {}}, "aggregator"),
    ],
    ids=["a list", "an object"],
)
def test_a_name_of_another_type_is_an_error(replica: Job, path: str) -> None:
    errors = validate_job(of_spec({"coordinated": {"replicas": [replica]}}))
    assert f"spec.coordinated.replicas[0].{path}" in {error.path for error in errors}


def places(value: Any, path: str) -> Iterator[str]:
    """The paths of a value and of all values in it."""
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, f'{path}["{key}"]' if "." in key else f"{path}.{key}")
    if isinstance(value, list):
        for index, below in enumerate(value):
            yield from places(below, f"{path}[{index}]")


FULL = [
    ALMOST_ALL,
    job(task(replicas=3, minReplicas=1, maxReplicas=4, elastic={"templatePatch": {}}, vacant=[2])),
    job(task(replicas=2, podsPerReplica=2, processGroup={"lastCallSeconds": 9})),
    job(task(standby=1, processGroup={"elastic": True}, minReplicas=1, maxReplicas=2)),
    coordinated_job(coordinated={"replicas": [{"name": "a", "role": "aggregator"}]}),
]


@pytest.mark.parametrize("wrong", [None, "x", 1.5, [], {}, True, -1, 10**30, [None], [[]], [{}]])
def test_any_value_at_any_place_is_validated(wrong: Any) -> None:
    for good in FULL:
        for path in [*places(good["spec"], "spec"), "metadata.name"]:
            bad = changed(good, path, wrong)
            for error in [*validate_job(bad), *validate_update(good, bad)]:
                assert str(error).encode()


@given(JOBS)
def test_validation_of_a_copy_finds_the_same_errors(each: Job) -> None:
    assert [*map(str, validate_job(each))] == [*map(str, validate_job(deepcopy(each)))]


@given(SPECS)
def test_a_spec_without_errors_can_be_read(spec: Job) -> None:
    if not validate_job(of_spec(spec)):
        load_leniently(spec)


@given(SPECS)
def test_defaults_are_idempotent(spec: Job) -> None:
    once = with_defaults(spec)
    assert with_defaults(once) == once
    assert defaults_patch({"spec": once}) == []


@given(SPECS)
def test_the_patch_and_the_function_give_the_same_defaults(spec: Job) -> None:
    patched: Any = {"spec": deepcopy(spec)}
    for operation in defaults_patch({"spec": spec}):
        *above, field = operation["path"].removeprefix("/").split("/")
        target = patched
        for key in above:
            target = target[int(key)] if isinstance(target, list) else target[key]
        target[field] = operation["value"]
    assert first_difference(patched["spec"], with_defaults(spec)) is None


@given(JSON, JSON)
def test_values_that_print_differently_differ(old: Any, new: Any) -> None:
    assert first_difference(old, deepcopy(old)) is None
    if first_difference(old, new) is None:
        assert _without_nulls(old) == _without_nulls(new)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


LONG = 50_000
LARGE_INPUTS = {
    "a job name": job(name="n" * LONG),
    "a job name of dashes": job(name="-" * LONG),
    "a task name": job(task("none", name="a-" * LONG)),
    "a type": job(task("l" * LONG)),
    "an unknown field": of_spec({"tasks": [task()], "backoffLimi" * (LONG // 11): 1}),
    "a dependency": job(task(dependsOn=["d" * LONG])),
    "a label": job(task(template={"metadata": {"labels": {"diengine/" + "x" * LONG: "y"}}})),
    "many tasks of one name": of_spec({"tasks": [task("none", name="a")] * LONG}),
    "many tasks that wait for all others": of_spec(
        {"tasks": [task("none", name=f"t{i}", dependsOn=[f"t{i - 1}"]) for i in range(LONG)]}
    ),
    "many unknown fields": of_spec({"tasks": [task()]} | {f"f{i}": i for i in range(2000)}),
    "many repeated dependencies": job(task(dependsOn=["learner"] * LONG)),
}


@pytest.mark.parametrize("large", LARGE_INPUTS.values(), ids=LARGE_INPUTS)
def test_large_input_is_validated_in_linear_time(large: Job) -> None:
    started = time.process_time()
    errors = validate_job(large)
    # Quadratic work on these would take minutes; the bound allows for a slow machine.
    assert time.process_time() - started < 10
    assert errors
    assert max(len(str(error)) for error in errors) < 1000


def test_a_huge_number_is_not_printed() -> None:
    (error,) = validate_job(job(backoffLimit=-(10**5000)))
    assert str(error) == "spec.backoffLimit: a huge number: must be 0 or more"
    assert isinstance(error, FieldError)
