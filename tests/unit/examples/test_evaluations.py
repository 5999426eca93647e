"""The evaluator evaluates each policy once; a removed collector leaves properly."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from di_cartpole import collector, evaluator
from di_cartpole.episodes import SOLVED


class Learner:
    """Answers for it: one generation after the other, then the end."""

    def __init__(self, *generations: int) -> None:
        self.policies = [{"generation": each, "weights": [0.5]} for each in generations]
        self.evaluated: list[int] = []

    def __call__(self, url: str, body: dict[str, Any], _: threading.Event) -> dict[str, Any]:
        if url.endswith("/evaluations"):
            self.evaluated.append(body["generation"])
            return {}
        return {"done": not self.policies, **(self.policies.pop(0) if self.policies else {})}


def run(learner: Learner, monkeypatch: pytest.MonkeyPatch, *, mean: float) -> list[int]:
    played = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(total_reward=mean))
    monkeypatch.setattr(evaluator, "ask", learner)
    monkeypatch.setattr(evaluator, "Episodes", lambda: played)
    monkeypatch.setattr(evaluator, "POLL_SECONDS", 0)
    evaluator.run("http://learner", 1, threading.Event())
    return learner.evaluated


def test_each_new_policy_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(Learner(0, 0, 1, 4, 4), monkeypatch, mean=SOLVED - 1) == [0, 1, 4]


def test_a_solved_policy_is_not_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that was lost, and did not end, is evaluated again."""
    assert run(Learner(3, 5, 6), monkeypatch, mean=SOLVED) == [3]
    assert run(Learner(3, 5, 6, 7), monkeypatch, mean=SOLVED) == [3, 7]
    assert run(Learner(3, 5, 2, 6, 7), monkeypatch, mean=SOLVED) == [3, 7]


def test_a_removed_collector_sends_its_results_and_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving, told = threading.Event(), list[str]()

    def learner(url: str, body: dict[str, Any], _: threading.Event) -> dict[str, Any]:
        told.append(url.removeprefix("http://learner"))
        leaving.set()
        return {"generation": 0, "weights": [0.5], "seeds": [1], "sigma": 0.1}

    played = SimpleNamespace(total_reward=1.0, steps=1)
    pair = SimpleNamespace(run_pair=lambda *_, **__: (played, played))
    monkeypatch.setattr(collector, "ask", learner)
    monkeypatch.setattr(collector, "Episodes", lambda: pair)
    collector.run("http://learner", 2, leaving)
    assert told == ["/work", "/results", "/left"]
