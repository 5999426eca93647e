"""The learner's book of trials: what is open, who has it, what came back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

LEASE_SECONDS = 20.0
"""A collector that took trials and went silent for so long has lost them to the next one."""
ACTIVE_SECONDS = 5.0
"""A collector counts as present for so long after it was last heard."""


class Generation:
    """One generation of trials, handed out in small portions and taken back in any order.

    A trial whose collector disappears is handed out again; a result that comes twice counts once.
    """

    def __init__(self, seeds: list[int], *, portion: int) -> None:
        self._portion = portion
        self._leases = dict.fromkeys(seeds, 0.0)
        self.returns: dict[int, tuple[float, float]] = {}

    def take(self, now: float) -> list[int]:
        """The next trials to run; empty when all are with someone."""
        free = [seed for seed, until in self._leases.items() if until <= now][: self._portion]
        for seed in free:
            self._leases[seed] = now + LEASE_SECONDS
        return free

    def give_back(self, seed: int, plus: float, minus: float) -> bool:
        """Enter a result; False when it is already known or never belonged here."""
        if self._leases.pop(seed, None) is None:
            return False
        self.returns[seed] = (plus, minus)
        return True

    @property
    def complete(self) -> bool:
        return not self._leases


class Book:
    """What the learner's request threads and its training loop share, under one lock."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._generation = Generation([], portion=1)
        self._offer: dict[str, Any] = {"wait": 0.2}
        self._policy: dict[str, Any] = {}
        self._evaluations: list[dict[str, Any]] = []
        self._heard: dict[int, float] = {}
        self._idle: dict[int, float] = {}
        self._told: set[int] = set()
        self._finished = False
        self.env_steps = 0

    def open(self, number: int, weights: list[float], seeds: list[int], *, sigma: float) -> None:
        """Start a generation."""
        with self._changed:
            self._generation = Generation(seeds, portion=2)
            self._offer = {"generation": number, "weights": weights, "sigma": sigma}
            self._policy = {"generation": number, "weights": weights}

    def wait_complete(self, timeout: float) -> bool:
        """Wait until every trial of the generation has come back, at most `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._generation.complete, timeout)

    def returns(self) -> dict[int, tuple[float, float]]:
        with self._changed:
            return dict(self._generation.returns)

    def work(self, rank: int, idle: float) -> dict[str, Any]:
        """A collector asks for trials; `idle` is the share of its time it spent waiting."""
        with self._changed:
            self._heard[rank] = self._clock()
            self._idle[rank] = idle
            if self._finished:
                self._told.add(rank)
                return {"done": True}
            seeds = self._generation.take(self._clock())
            return {**self._offer, "seeds": seeds} if seeds else {"wait": 0.02}

    def results(self, generation: int, results: list[tuple[int, float, float, int]]) -> None:
        """A collector brings the returns of trials: (seed, plus, minus, environment steps)."""
        with self._changed:
            self.env_steps += sum(steps for *_, steps in results)
            if generation != self._offer.get("generation"):
                return
            for seed, plus, minus, _ in results:
                self._generation.give_back(seed, plus, minus)
            self._changed.notify_all()

    def left(self, rank: int) -> None:
        """A collector says that it goes."""
        with self._changed:
            self._heard.pop(rank, None)
            self._idle.pop(rank, None)

    def policy(self, rank: int) -> dict[str, Any]:
        """The evaluator asks for the newest weights."""
        with self._changed:
            self._heard[rank] = self._clock()
            if self._finished:
                self._told.add(rank)
            return {**self._policy, "done": self._finished}

    def evaluated(self, evaluation: dict[str, Any]) -> None:
        with self._changed:
            self._evaluations.append(evaluation)

    def new_evaluations(self) -> list[dict[str, Any]]:
        """The evaluations since the last call."""
        with self._changed:
            fresh, self._evaluations = self._evaluations, []
            return fresh

    def collectors(self) -> tuple[int, float]:
        """How many collectors are present, and the mean share of time they wait."""
        with self._changed:
            now = self._clock()
            present = [rank for rank in self._idle if now - self._heard[rank] <= ACTIVE_SECONDS]
            idle = sum(self._idle[rank] for rank in present) / max(len(present), 1)
            return len(present), idle

    def finish(self) -> None:
        """From now on every peer that asks is told that training is over."""
        with self._changed:
            self._finished = True

    def everyone_told(self) -> bool:
        """Whether all peers still present have heard that training is over."""
        with self._changed:
            now = self._clock()
            present = {r for r, heard in self._heard.items() if now - heard <= ACTIVE_SECONDS}
            return present <= self._told
