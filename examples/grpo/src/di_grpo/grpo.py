"""Group relative policy optimization: what samples teach.

Shao et al., "DeepSeekMath" (2024), section 4.1, without the penalty for leaving the reference
model: a group is several answers to one prompt, and each is as good as it is better than those.
"""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import grad

from di_grpo.model.network import ANSWERED, log_probabilities
from di_grpo.model.problems import ANSWER
from di_grpo.model.weights import INPUTS, Floats, Weights
from di_grpo.samples import GROUP
from di_grpo.shares import Share

CLIP = 0.2
"""What is this much more or less probable than when it was sampled is pushed no further."""


def advantages(rewards: Floats) -> Floats:
    """By how many standard deviations each answer is better than its group, if they differ."""
    groups = rewards.reshape(-1, GROUP)
    centred = groups - groups.mean(1, keepdims=True)
    better: Floats = (centred / (groups.std(1, keepdims=True) + np.float32(1e-4))).ravel()
    return better


def gradient(weights: Weights, share: Share) -> Weights:
    """Of the loss of one share, by name of the weights."""
    found: Weights = _gradient(weights, share)
    return found


def _loss(weights: Weights, share: Share) -> Any:
    before = np.zeros((len(share.texts), INPUTS), np.float32)
    before[:, -ANSWER:] = share.log_probabilities
    ratio = anp.exp((log_probabilities(weights, share.texts) - before) * ANSWERED)
    better = share.advantages[:, None]
    kept = anp.minimum(ratio * better, anp.clip(ratio, 1 - CLIP, 1 + CLIP) * better)
    return -anp.sum(kept * ANSWERED) / (len(share.texts) * ANSWER)


_gradient = grad(_loss)
