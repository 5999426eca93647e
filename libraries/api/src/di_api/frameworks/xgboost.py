"""XGBoost: workers meet at a tracker, which the program starts in the pod with rank 0.

The variables are the arguments of `xgboost.collective.CommunicatorContext` in capitals, as XGBoost
3.4 has them. The library itself reads none of them from the environment.
"""

from collections.abc import Mapping
from math import isqrt
from typing import Final

from di_api.frameworks.declaration import Declaration, Member
from di_api.frameworks.ranks import place_variables


def _variables(member: Member) -> Mapping[str, str]:
    size = len(member.nodes)
    return {
        **place_variables(member),
        "DMLC_TRACKER_URI": member.master,
        "DMLC_TRACKER_PORT": str(member.port),
        "DMLC_NUM_WORKER": str(size),
        # The tracker sorts them as texts.
        "DMLC_TASK_ID": str(member.index).zfill(len(str(size - 1))),
        "DMLC_RETRY": str(_attempts(member.group.deadline_seconds)),
    }


def _attempts(seconds: int) -> int:
    """Return how often a worker tries to reach the tracker, to wait for so long.

    The delay before the next attempt grows by 2 seconds each time; the default of the library, 3
    attempts, waits for 6 seconds.
    """
    return (1 + isqrt(4 * seconds)) // 2 + 1


XGBOOST: Final = Declaration(
    variables=_variables,
    single_process="a worker of xgboost uses the cores of its pod by threads",
    fixed_size="a tracker of xgboost admits no further worker",
)
