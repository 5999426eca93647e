"""A sweep has one place in the order of jobs, however many trials it has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.binpack import BinpackPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from tests.unit.allocator.worlds import job, nodes, task

POLICIES: Mapping[str, type[Policy]] = {
    "fit": FitPolicy,
    "binpack": BinpackPolicy,
    "goodput": GoodputPolicy,
}
_GPUS = 8
_TRIALS = 1_000
_OTHERS = 8
_ROUNDS = 40


def _jobs(made: list[tuple[str, float, int]]) -> dict[str, JobInfo]:
    return {
        f"rl/{number}": job(f"rl/{number}", task(1), age=age, sweep=sweep, priority=priority)
        for number, (sweep, age, priority) in enumerate(made)
    }


_made = st.lists(
    st.tuples(st.sampled_from(["", "", "a", "b"]), st.floats(0, 100), st.integers(0, 1)),
    max_size=20,
)


@given(_made)
def test_each_further_trial_of_a_sweep_comes_after_all_other_jobs(
    made: list[tuple[str, float, int]],
) -> None:
    order = in_order(_jobs(made))
    for priority in (0, 1):
        found = [each for each in order if each.priority == priority]
        seen: dict[str, int] = {}
        turns = []
        for each in found:
            turns.append(seen.get(each.sweep, 0) if each.sweep else 0)
            seen[each.sweep] = seen.get(each.sweep, 0) + 1
        assert turns == sorted(turns)
        for turn in set(turns):
            ages = [each.age for each, at in zip(found, turns, strict=True) if at == turn]
            assert ages == sorted(ages, reverse=True)
    assert [each.priority for each in order] == sorted(
        (each.priority for each in order), reverse=True
    )


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.proves("sweeps.md#in-a-cluster")
def test_a_thousand_trials_starve_no_other_job(name: str) -> None:
    """Trials take one round, and others arrive while all thousand wait."""
    policy = POLICIES[name]()
    cluster = nodes(_GPUS, slot=1)
    waiting = {
        f"rl/trial-{number:04}": job(f"rl/trial-{number:04}", task(1), sweep="s")
        for number in range(_TRIALS)
    }
    born = dict.fromkeys(waiting, 0)
    waited: dict[str, int] = {}
    started_trials = 0
    for now in range(1, _ROUNDS):
        if now % 4 == 0 and now // 4 <= _OTHERS:
            key = f"rl/other-{now:03}"
            waiting[key], born[key] = job(key, task(1)), now
        jobs = {
            key: job(key, *each.tasks, sweep=each.sweep, age=float(now - born[key]))
            for key, each in waiting.items()
        }
        answer = policy.optimize(jobs, cluster, dict.fromkeys(jobs, NodeList()))
        started = [key for key, placed in answer.items() if placed]
        assert len(started) == min(_GPUS, len(waiting))
        for key in started:
            del waiting[key]
            if "other" in key:
                waited[key] = now - born[key]
            else:
                started_trials += 1
    assert len(waited) == _OTHERS
    # Each started in the round in which it arrived, and the sweep took all the rest.
    assert set(waited.values()) == {0}
    assert started_trials == min(_TRIALS, _GPUS * (_ROUNDS - 1) - _OTHERS)
