"""What the learner aims at, though its collectors acted by older weights.

V-trace: Espeholt et al., "IMPALA" (2018), section 4.1, with both caps 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from di_impala.network import Floats


@dataclass(frozen=True, slots=True)
class Targets:
    """Of every step: the value that its observation should have, and how much better than expected
    its action was."""

    values: Floats
    advantages: Floats


def targets(*, ratios: Floats, rewards: Floats, discounts: Floats, values: Floats) -> Targets:
    """
    Args:
        ratios: how much likelier each action is now than it was when it was chosen.
        rewards: what followed it.
        discounts: what the time after it is worth; 0 where it ended an episode.
        values: of each observation by the critic, one row more for the observation after the last
            action.
    """
    capped = np.minimum(ratios, 1)
    surprises = capped * (rewards + discounts * values[1:] - values[:-1])
    corrections = np.zeros_like(values)
    for step in reversed(range(len(rewards))):
        later = discounts[step] * capped[step] * corrections[step + 1]
        corrections[step] = surprises[step] + later
    aims = values + corrections
    return Targets(aims[:-1], capped * (rewards + discounts * aims[1:] - values[:-1]))
