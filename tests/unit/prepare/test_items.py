"""Items are made side by side, each once what it depends on is ready."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import get_args

import pytest

from tools.prepare.display import Lines
from tools.prepare.items import COMMANDS, Group, Item, Preparation, needed_by, unready

GROUPS = get_args(Group)


def item(
    name: str,
    make: Callable[[], object] = lambda: None,
    *,
    after: tuple[str, ...] = (),
    turn: str = "",
    **changes: object,
) -> Item:
    found = Item(
        name=name,
        command="test",
        group="node",
        how=f"builds {name}",
        advice="free some space",
        is_ready=lambda: False,
        make=make,
        after=after,
        turn=turn,
    )
    for key, value in changes.items():
        object.__setattr__(found, key, value)
    return found


def prepare(*items: Item, workers: int = 2) -> tuple[Preparation, str]:
    stream = io.StringIO()
    preparation = Preparation(display=Lines(stream.write), workers=workers)
    preparation.make(items)
    return preparation, stream.getvalue()


def test_an_item_is_made_after_what_it_depends_on() -> None:
    made: list[str] = []
    image = item("image", lambda: made.append("image"), after=("buildah", "ready before"))
    _, text = prepare(image, item("buildah", lambda: made.append("buildah")))
    assert made == ["buildah", "image"]
    assert [line.partition("] ")[2].partition(" (")[0] for line in text.splitlines()] == [
        "buildah begins: builds buildah",
        "buildah is ready",
        "image begins: builds image",
        "image is ready",
    ]


def test_two_items_are_made_side_by_side() -> None:
    both = threading.Barrier(2)
    preparation, _ = prepare(*(item(name, lambda: both.wait(30)) for name in "ab"))
    assert preparation.failed == {}


@pytest.mark.parametrize(("turn", "workers"), [("apt", 4), ("", 1)])
def test_a_turn_and_the_workers_bound_what_runs_at_once(turn: str, workers: int) -> None:
    free = threading.Lock()

    def alone() -> None:
        assert free.acquire(blocking=False)
        free.release()

    items = [item(name, alone, turn=turn) for name in "abcdef"]
    assert prepare(*items, workers=workers)[0].failed == {}


def test_a_failure_names_the_item_and_leaves_the_others_running() -> None:
    made: list[str] = []

    def fail() -> None:
        raise OSError("no space left on device")

    preparation, text = prepare(
        item("last", lambda: made.append("last"), after=("image",)),
        item("image", lambda: made.append("image"), after=("base",)),
        item("base", fail),
        item("other", lambda: made.append("other")),
        workers=1,
    )
    assert made == ["other"]
    assert preparation.failed == {
        "base": "no space left on device",
        "image": "it needs base",
        "last": "it needs image",
    }
    assert (
        "base FAILED\n  tried: builds base\n  no space left on device\n  do: free some space"
        in text
    )


def test_items_that_depend_on_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="a depends on itself"):
        prepare(item("a", after=("b",)), item("b", after=("a",)))


def test_an_item_is_unready_if_its_check_fails() -> None:
    def fail() -> bool:
        raise FileNotFoundError("buildah")

    items = [item("a", is_ready=lambda: True), item("b"), item("c", is_ready=fail)]
    assert [each.name for each in unready(items)] == ["b", "c"]
    assert unready([]) == []


def test_a_command_needs_what_the_smaller_ones_need() -> None:
    items = [item(each, command=each) for each in COMMANDS]
    assert [each.name for each in needed_by(items, "test")] == ["check", "test"]


def test_groups_need_their_items_and_what_those_depend_on() -> None:
    items = [
        item("Go", group="control plane"),
        item("etcd", group="control plane", after=("Go",)),
        item("helm", group="helm", after=("Go",)),
        item("image", after=("etcd",)),
        item("late", command="all", group="helm"),
    ]
    names = {each: [one.name for one in needed_by(items, "test", [each])] for each in GROUPS}
    assert names["helm"] == ["Go", "helm"]
    assert names["node"] == ["Go", "etcd", "image"]
    assert names["soak"] == []
