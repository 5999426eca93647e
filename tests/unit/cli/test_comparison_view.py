"""What di compare computes: statistics over seeds, fields of specs, and groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from di_cli.views.comparison import Axis, Compared, Comparison, compared
from di_cli.views.reports import Reports
from di_cli.views.scores import bootstrap_interval, interquartile_mean, percentile
from di_cli.views.spec_fields import fields_of

Object = dict[str, Any]
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0, 6.0], 3.0),
        # One of four is left out at each end, two of eight, one of seven.
        ([100.0, 3.0, 1.0, -50.0], 2.0),
        ([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 4.5),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 60.0], 3.0),
    ],
)
def test_an_interquartile_mean_leaves_out_a_quarter_at_each_end(
    scores: list[float], mean: float
) -> None:
    assert interquartile_mean(scores) == mean


def test_a_percentile_is_interpolated_linearly() -> None:
    assert percentile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert percentile([1.0, 2.0, 4.0], 1.0) == 4.0
    assert percentile([3.0], 0.025) == 3.0


def test_a_bootstrap_interval_is_that_of_all_resamples() -> None:
    scores = [10.0, 20.0, 40.0, 80.0, 160.0]
    everything = sorted(interquartile_mean(each) for each in product(scores, repeat=5))
    exact = percentile(everything, 0.025), percentile(everything, 0.975)
    assert bootstrap_interval(scores) == pytest.approx(exact)
    # A quarter of the resamples of two scores has the lower one alone, a quarter the higher one.
    assert bootstrap_interval([0.0, 10.0]) == (0.0, 10.0)
    assert bootstrap_interval([5.0, 5.0, 5.0]) == (5.0, 5.0)


def test_a_bootstrap_interval_does_not_depend_on_the_order_of_the_scores() -> None:
    scores = [0.31, 0.57, 0.11, 0.83, 0.29, 0.71, 0.43, 0.9, 0.05]
    assert bootstrap_interval(scores[::-1]) == bootstrap_interval(scores)
    assert bootstrap_interval([7.0]) == (7.0, 7.0)


def test_a_bootstrap_interval_of_fewer_resamples_is_near_that_of_many() -> None:
    scores = [score * score / 7 for score in range(12)]
    few, many = bootstrap_interval(scores, resamples=2_000), bootstrap_interval(scores)
    assert few == pytest.approx(many, abs=0.2)
    assert few != many


def test_a_bootstrap_interval_is_the_same_each_time() -> None:
    scores = [0.31, 0.57, 0.11, 0.83, 0.29, 0.71, 0.43]
    assert bootstrap_interval(scores) == bootstrap_interval(scores)


@pytest.mark.parametrize(
    ("words", "shown", "seeds"),
    [
        (["python3", "t.py", "--seed", "3"], "python3 t.py --seed SEED", ("3",)),
        (["t.py", "--seed=3", "--lr=1"], "t.py --seed=SEED --lr=1", ("3",)),
        (["t.py", "train.seed=3"], "t.py train.seed=SEED", ("3",)),
        (["sh", "-c", "t.py --seed 3 | tee x"], "sh -c 't.py --seed SEED | tee x'", ("3",)),
        (["t.py", "--seeds", "3"], "t.py --seeds 3", ()),
        (["t.py", "--no-seed", "3"], "t.py --no-seed 3", ()),
        (["t.py", "--seed", "--fast"], "t.py --seed --fast", ()),
    ],
)
def test_the_seed_of_a_command_is_kept_apart(
    words: list[str], shown: str, seeds: tuple[str, ...]
) -> None:
    container = {"name": "c", "image": "i", "command": words}
    spec = {"tasks": [{"type": "learner", "template": {"spec": {"containers": [container]}}}]}
    fields, found = fields_of(spec)
    path = "tasks[learner].template.spec.containers[c]"
    assert fields[f"{path}.command"] == shown
    assert fields[f"{path}.image"] == "i"
    assert found == seeds


def test_a_variable_named_seed_is_a_seed_and_others_are_none() -> None:
    env = [{"name": "SEED", "value": "4"}, {"name": "SEEDLING", "value": "5"}]
    fields, seeds = fields_of({"env": env, "flags": [1, 2], "on": True})
    assert seeds == ("4",)
    assert fields["env[SEED].value"] == "SEED"
    assert fields["env[SEEDLING].value"] == "5"
    assert (fields["flags"], fields["on"]) == ("1 2", "true")


def test_items_without_names_of_their_own_are_known_by_their_place() -> None:
    tasks = [{"type": "learner", "replicas": 1}, {"type": "learner", "replicas": 2}]
    fields, _ = fields_of({"tasks": tasks, "volumes": [{"name": "v", "emptyDir": {}}]})
    assert fields == {
        "tasks[0].type": "learner",
        "tasks[0].replicas": "1",
        "tasks[1].type": "learner",
        "tasks[1].replicas": "2",
        "volumes[v].name": "v",
        "volumes[v].emptyDir": "{}",
    }


def test_code_counts_by_its_content() -> None:
    one, other = (
        {"code": {"configMap": name, "sha256": "1" * 64, "revision": "abc"}} for name in "ab"
    )
    assert fields_of(one) == fields_of(other) == ({"code": "111111111111, git abc"}, ())


def test_the_last_tenth_has_one_value_at_least() -> None:
    job = _job("a", [float(number) for number in range(25)])
    # Of 25 values the last three.
    assert job.last_tenth == 23.0
    assert _job("b", [1.0, 5.0]).last_tenth == 5.0


def test_the_best_value_is_the_first_highest_or_lowest() -> None:
    job = _job("a", [1.0, 9.0, 9.0, 0.0])
    best, lowest = job.best(lowest=False), job.best(lowest=True)
    assert (best.value, best.step, best.seconds) == (9.0, 1.0, 60.0)
    assert (lowest.value, lowest.step) == (0.0, 3.0)


def test_jobs_that_differ_in_their_seed_alone_are_one_row() -> None:
    found = Comparison(
        wanted="return",
        jobs=[
            _job("ppo-1", [0.0, 10.0], "1"),
            _job("sac-1", [0.0, 50.0], "1", image="sac"),
            _job("ppo-2", [0.0, 20.0], "2"),
            _job("ppo-3", [0.0, 60.0], "3"),
        ],
    )
    header, rows = found.table()
    shown = [dict(zip(header, row, strict=True)) for row in rows]
    assert [each["JOB"] for each in shown] == ["ppo-1 +2", "sac-1"]
    assert [each["LAST"] for each in shown] == ["30", "50"]
    assert [each["SEEDS"] for each in shown] == ["3", ""]
    assert shown[0]["IQM"] == "30"
    assert shown[0]["95% INTERVAL"] == "10..60"
    assert found.differences()["tasks[learner].image"] == {
        "ppo-1": "ppo",
        "sac-1": "sac",
        "ppo-2": "ppo",
        "ppo-3": "ppo",
    }
    assert ("", "2", "ppo-2") in found.difference_rows()


def test_jobs_with_the_same_seed_or_none_are_separate_rows() -> None:
    same = Comparison(wanted="return", jobs=[_job(name, [1.0], "1") for name in "ab"])
    none = Comparison(wanted="return", jobs=[_job(name, [1.0], "") for name in "ab"])
    assert [len(each.groups()) for each in (same, none)] == [2, 2]


def test_csv_has_a_row_for_each_step_of_any_job() -> None:
    jobs = [_job("a", [0.5, 1.0]), _job("b", [2.0, 3.0, 1e-7])]
    assert Comparison(wanted="return", jobs=jobs).csv_rows() == [
        ["step", "a", "b"],
        ["0", "0.5", "2"],
        ["1", "1", "3"],
        ["2", "", "1e-07"],
    ]
    assert Comparison(wanted="return", jobs=jobs, axis=Axis.TIME).csv_rows()[2] == ["60", "1", "3"]


def test_a_step_that_was_repeated_has_its_last_value() -> None:
    reports = Reports()
    for minute, (step, value) in enumerate([(0, 1.0), (10, 9.0), (5, 4.0), (10, 2.0)]):
        at = (START + timedelta(minutes=minute)).isoformat()
        reports.read({"samples": [{"at": at, "values": {"step": step, "reward": value}}]})
    job = compared("a", {}, reports, "reward", seconds=None, nodes=None, is_whole=True)
    found = Comparison(wanted="reward", jobs=[job])
    assert found.groups()[0].curves(Axis.STEP) == [[(0, 1.0), (5, 4.0), (10, 2.0)]]
    assert found.csv_rows() == [["step", "a"], ["0", "1"], ["5", "4"], ["10", "2"]]


def _job(name: str, values: list[float], seed: str = "", image: str = "ppo") -> Compared:
    reports = Reports()
    for step, value in enumerate(values):
        at = (START + timedelta(minutes=step)).isoformat()
        numbers = {"step": step, "ep_rew_mean": value}
        reports.read({"samples": [{"at": at, "values": numbers}]})
    args = ["t.py", *(["--seed", seed] if seed else [])]
    spec: Object = {"tasks": [{"type": "learner", "image": image, "args": args}]}
    return compared(name, spec, reports, "return", seconds=60.0, nodes=["n"], is_whole=True)
