"""What rollout engines and the evaluator have in common: newest weights, and rewards."""

from __future__ import annotations

import json

import numpy as np

import di_orchestrator as di
from di_grpo.model.problems import Tokens, decode
from di_grpo.model.sampler import Sampler
from di_grpo.model.weights import Floats
from di_orchestrator.arrays import unpack


class Engine:
    """Follows the learners' weights by version.

    Attributes:
        version: of the weights it has.
        sampler: that samples with them.
    """

    version: int
    sampler: Sampler

    def __init__(self, job: di.Job) -> None:
        self._url = f"http://{job.service('learner')}/weights?who={job.pod}"
        self.version = -1
        self.fetch()

    def fetch(self) -> bool:
        """Get the newest weights; False if it has them.

        Raises:
            Gone: training is over.
            Unreachable: no learner has answered for two minutes.
        """
        message = di.call("GET", f"{self._url}&have={self.version}")
        if not message:
            return False
        weights = unpack(message)
        self.version = int(weights.pop("version"))
        self.sampler = Sampler(weights)
        return True


def rewards_of(texts: Tokens, job: di.Job) -> Floats:
    """What the judge gives for each text.

    Raises:
        Refused, Unreachable: the judge gives nothing.
    """
    body = json.dumps({"texts": decode(texts)}).encode()
    said = json.loads(di.call("POST", f"http://{job.service('judge')}/rewards", body))
    return np.array(said["rewards"], np.float32)
