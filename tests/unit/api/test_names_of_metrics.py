"""A number is found under any spelling of its name."""

from __future__ import annotations

import pytest

from di_api.profilings import RETURN, find_metric


@pytest.mark.parametrize(
    "name",
    [
        *("episodeReturn", "episode_return", "EpisodeReturn", "episode-return", "Episode Return"),
        *("train/episode_return", "rollout/ep_rew_mean", "charts/episodic_return"),
        *("episode_reward_mean", "EpRet_Mean", "mean_reward", "reward"),
    ],
)
@pytest.mark.proves("sdk.md#names-of-numbers")
def test_the_return_is_found_under_any_spelling(name: str) -> None:
    assert find_metric(["loss", "lr", name], RETURN) == name


def test_an_exact_name_is_preferred_to_another_spelling() -> None:
    assert find_metric(["episode_return", "episodeReturn"], RETURN) == "episodeReturn"
    assert find_metric(["mean_reward", "episode_return"], RETURN) == "episode_return"
    assert find_metric(["reward", "rollout/ep_rew_mean"], RETURN) == "rollout/ep_rew_mean"


def test_any_other_number_is_found_by_its_own_words_only() -> None:
    assert find_metric(["learner_wait_frac"], "learnerWaitFrac") == "learner_wait_frac"
    assert find_metric(["return_code", "wait"], RETURN) is None
    assert find_metric([], RETURN) is None
