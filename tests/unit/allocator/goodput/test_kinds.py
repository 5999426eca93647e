"""The goodput policy where nodes are of several kinds: who gets which, and what is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from di_operator.allocator.goodput.curves import Curves
from di_operator.allocator.goodput.kinds import Known, Ladder, known_speeds
from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.goodput.params import Collecting, GoodputModel
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import counts, elastic, job, model, node, task

STEP = 0.05


def cluster(slow: int = 4, fast: int = 2, *, per_node: int = 4) -> dict[str, NodeInfo]:
    room = {}
    for kind, count in (("slow", slow), ("fast", fast)):
        for number in range(count):
            name = f"{kind}-{number}"
            room[name] = replace(node(name, gpu=per_node), kind=kind)
    return room


def measured(times: float | None = None, *, step: float = STEP) -> dict[str, GoodputModel]:
    """A job that is so many times faster on fast nodes; None: it has not been there."""
    found = {"slow": model(step=step, noise=1e4)}
    if times is not None:
        perf = found["slow"].perf
        faster = replace(perf, alpha_c=perf.alpha_c / times, beta_c=perf.beta_c / times)
        found["fast"] = replace(found["slow"], perf=faster)
    return found


def on_kinds(key: str, times: float | None = None, **options: Any) -> JobInfo:
    return elastic(key, **{"model": None, "by_kind": measured(times)} | options)


def decide(
    *jobs: JobInfo,
    room: Mapping[str, NodeInfo] | None = None,
    previous: Mapping[str, NodeList] | None = None,
) -> dict[str, NodeList]:
    nodes = cluster() if room is None else room
    return GoodputPolicy().optimize({each.key: each for each in jobs}, nodes, previous or {})


def kinds(placed: NodeList) -> set[str]:
    return {name.partition("-")[0] for name in placed}


@pytest.mark.proves("allocation.md#gpus-of-several-kinds")
def test_a_job_alone_gets_at_most_all_nodes_of_the_larger_kind() -> None:
    assert counts(decide(on_kinds("alone", 1.0))) == {"alone": 16}


@pytest.mark.proves("allocation.md#gpus-of-several-kinds")
def test_the_fast_nodes_go_to_the_job_that_gains_most_there() -> None:
    for times in ((4.0, 1.1), (1.1, 4.0)):
        found = decide(*(on_kinds(f"j{n}", each) for n, each in enumerate(times)))

        assert [kinds(found[f"j{n}"]) for n in (0, 1)] == [
            {"fast"} if each == 4.0 else {"slow"} for each in times
        ]


def test_short_jobs_get_the_fast_nodes() -> None:
    short, long = on_kinds("short", 3.0, remaining=1e3), on_kinds("long", 3.0, remaining=1e8)

    found = decide(short, long, room=cluster(1, 1))

    assert (kinds(found["short"]), kinds(found["long"])) == ({"fast"}, {"slow"})


def test_a_job_changes_its_node_type_only_if_that_pays_a_restart() -> None:
    def moved(times: float) -> bool:
        held = {"j": NodeList((("learner", ("slow-0",) * 4),))}
        one = on_kinds("j", times, maximum=4)
        return kinds(decide(one, room=cluster(1, 1), previous=held)["j"]) == {"fast"}

    assert not moved(1.1)
    assert moved(3.0)


def test_one_node_type_gives_the_same_answer_as_none() -> None:
    room = cluster(4, 0)
    jobs = [on_kinds(f"j{n}", 2.0) for n in range(5)]
    plain = [replace(each, model=each.by_kind["slow"], by_kind={}) for each in jobs]
    unlabelled = {name: replace(each, kind="") for name, each in room.items()}

    assert decide(*jobs, room=room) == decide(*plain, room=unlabelled)


def test_a_selector_keeps_a_job_on_its_node_type() -> None:
    wants = on_kinds("w", 5.0)
    here = replace(
        wants.tasks[0], constraints=replace(wants.tasks[0].constraints, selector=(("gpu", "old"),))
    )
    room = {
        name: replace(each, labels={"gpu": "old" if each.kind == "slow" else "new"})
        for name, each in cluster().items()
    }

    assert kinds(decide(replace(wants, tasks=(here,)), room=room)["w"]) == {"slow"}


def test_nodes_without_a_type_are_one_type() -> None:
    room = {name: replace(each, kind="") for name, each in cluster(2, 0).items()}
    found = decide(on_kinds("j", 3.0), room=room | cluster(0, 2))

    assert len(kinds(found["j"])) == 1


def test_a_job_on_two_node_types_is_moved_to_one() -> None:
    held = {"j": NodeList((("learner", ("slow-0",) * 2 + ("fast-0",) * 2),))}

    assert len(kinds(decide(on_kinds("j", 1.0), previous=held)["j"])) == 1


def test_collectors_of_any_node_type_grow_with_the_learners_speed() -> None:
    def collectors(times: float) -> int:
        one = job(
            "t",
            task(1, minimum=1, maximum=4, gpu=1),
            task(1, name="collector", minimum=1, maximum=400, cpu=1),
            by_kind=measured(times),
            explored=4,
            collecting=Collecting(rate=100.0),
        )
        room = {
            "slow-0": replace(node("slow-0", gpu=0, cpu=400), kind="slow"),
            "fast-0": replace(node("fast-0", gpu=4), kind="fast"),
        }
        placed = decide(one, room=room)["t"]
        assert set(placed.task("learner")) == {"fast-0"}
        assert set(placed.task("collector")) == {"slow-0"}
        return len(placed.task("collector"))

    assert collectors(4.0) > collectors(1.0) > 1


# ------------------------------------------------------------ what has not been measured
def guessed(*known: Known) -> float:
    """The speed of one replica of the first job on fast nodes, in those on slow ones."""
    jobs = {f"j{number}": each for number, each in enumerate(known)}
    curve = known_speeds(jobs, Curves())[0]["j0", "fast"]
    return curve[1] / goodput(known[0].by_kind["slow"], 1, 1)


def knows(
    times: float | None, *, namespace: str = "a", maximum: int = 8192, step: float = STEP
) -> Known:
    found = {
        kind: replace(each, limits=replace(each.limits, maximum=maximum))
        for kind, each in measured(times, step=step).items()
    }
    ladder = Ladder(kind="fast", sizes=(0, 1, 4), per_node=4)
    return Known(namespace=namespace, anywhere=None, by_kind=found, ladders=[ladder])


def test_an_unmeasured_node_type_counts_as_equally_fast() -> None:
    assert guessed(knows(None), knows(None)) == pytest.approx(1.0)


def test_a_jobs_own_measurement_counts_most() -> None:
    assert guessed(knows(2.0), knows(9.0), knows(9.0)) == pytest.approx(
        guessed(knows(2.0)), rel=1e-9
    )


def test_runs_of_one_program_share_their_measurements() -> None:
    # The others have other bounds of batches.
    others = [knows(9.0, maximum=4096) for _ in range(3)]
    alone, both = guessed(knows(2.0)), guessed(knows(None), knows(2.0), *others)

    assert both == pytest.approx(alone)


def test_equal_programs_of_two_namespaces_share_only_their_ratio() -> None:
    # Of its own program a job knows how fast it is, of another how many times faster.
    other = measured(2.0, step=STEP / 10)
    slow, fast = (goodput(other[kind], 1, 1) for kind in ("slow", "fast"))

    same = guessed(knows(None), knows(2.0, step=STEP / 10))
    foreign = guessed(knows(None), knows(2.0, step=STEP / 10, namespace="b"))

    assert same == pytest.approx(fast / goodput(measured()["slow"], 1, 1))
    assert foreign == pytest.approx(fast / slow)


def test_the_median_ratio_of_other_programs_counts() -> None:
    others = [knows(times, maximum=4096) for times in (1.0, 2.0, 50.0)]

    assert guessed(knows(None), *others) == pytest.approx(
        guessed(knows(None), knows(2.0, maximum=4096))
    )


def test_a_measurement_without_a_node_type_counts_everywhere() -> None:
    plain = replace(knows(None), anywhere=measured()["slow"], by_kind={})
    curve = known_speeds({"p": plain, "q": knows(4.0)}, Curves())[0]["p", "fast"]

    assert curve[1] == goodput(measured()["slow"], 1, 1)


def test_a_new_job_is_assumed_faster_where_others_are() -> None:
    newcomer = elastic("new", model=None, explored=0, maximum=4)
    busy = on_kinds("busy", 6.0, maximum=4, attained=1e7)

    found = decide(newcomer, busy, room=cluster(1, 2))

    assert kinds(found["new"]) == {"fast"}
