"""Actions that were followed by more reward become likelier; collectors play what is asked."""

from __future__ import annotations

import http.client
import threading
from functools import partial

import numpy as np
import pytest
from di_coordinated.collector import MAX_EPISODES, player, run
from di_coordinated.episodes import Episodes
from di_coordinated.policy import SIZE, Episode, Learner, advantages, initial_weights, probabilities

from tests.ports import held_port
from tests.waiting import wait_until

OBSERVATION = np.array([0.1, -0.2, 0.03, 0.4])


def episode(action: int, *, length: int) -> Episode:
    """An episode in which the same thing was seen and done at every step."""
    return Episode(
        observations=np.tile(OBSERVATION, (length, 1)), actions=np.full(length, action, dtype=int)
    )


@pytest.mark.parametrize("better", [0, 1])
def test_the_action_of_the_longer_episode_becomes_likelier(better: int) -> None:
    learner = Learner(seed=1)
    before = probabilities(learner.weights, OBSERVATION)[better]
    for _ in range(20):
        learner.improve([episode(better, length=20), episode(1 - better, length=3)])
    assert probabilities(learner.weights, OBSERVATION)[better] > before + 0.1


def test_the_gradient_matches_the_expected_advantage() -> None:
    """One step of Adam moves every weight by the sign of the derivative, found by differences."""
    episodes = [episode(0, length=3), episode(1, length=8)]
    learner = Learner(seed=3)
    before = learner.weights
    scores = advantages([3, 8])

    def gain(weights: np.ndarray) -> float:
        chances = probabilities(weights, OBSERVATION)
        return float(np.log(chances[0]) * scores[:3].sum() + np.log(chances[1]) * scores[3:].sum())

    slopes = np.array(
        [(gain(before + nudge) - gain(before - nudge)) / 2e-5 for nudge in 1e-5 * np.eye(SIZE)]
    )
    learner.improve(episodes)
    steep = np.abs(slopes) > 1e-4
    assert steep.sum() > SIZE / 2
    assert np.array_equal(np.sign(learner.weights - before)[steep], np.sign(slopes)[steep])


def test_a_collector_plays_an_episode_for_each_seed() -> None:
    play = player(Episodes())
    request = {"weights": initial_weights(1).tolist(), "seeds": [1, 2, 1]}
    first, second, third = play(request)["episodes"]
    assert first == third
    assert first != second
    assert len(first["actions"]) == len(first["observations"]) >= 8
    assert {*first["actions"], *second["actions"]} == {0, 1}


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"weights": [1.0], "seeds": [1]},
        {"weights": [0.0] * SIZE, "seeds": [1] * (MAX_EPISODES + 1)},
        {"weights": [0.0] * SIZE, "seeds": ["one"]},
        {"weights": "many", "seeds": [1]},
    ],
    ids=["nothing", "too few weights", "too many seeds", "a word for a seed", "no weights"],
)
def test_a_collector_refuses_a_bad_request(request_: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        player(Episodes())(request_)


def test_a_collector_listens_on_both_families() -> None:
    leaving = threading.Event()
    with held_port() as port:
        collector = threading.Thread(target=lambda: run(port=port, leaving=leaving), daemon=True)
        collector.start()
        try:
            for host in ("127.0.0.1", "::1"):
                wait_until(partial(is_answered, host, port), what=f"an answer at {host}")
        finally:
            leaving.set()
            collector.join(60)


def is_answered(host: str, port: int) -> bool:
    client = http.client.HTTPConnection(host, port, timeout=60)
    try:
        client.request("GET", "/")
        return client.getresponse().status == 200
    except ConnectionRefusedError:
        return False
    finally:
        client.close()
