"""What rollout engines and the evaluator have in common: they follow the weights."""

from __future__ import annotations

from di_grpo.client import ask_patiently
from di_grpo.messages import unpack
from di_grpo.model.sampler import Sampler
from di_grpo.peers import Peers


class Engine:
    """Follows the learners' weights by version.

    Attributes:
        version: of the weights it has.
        sampler: that samples with them.
    """

    version: int
    sampler: Sampler

    def __init__(self, peers: Peers) -> None:
        self._url = f"{peers.learner_service}/weights?who={peers.task}-{peers.index}"
        self.version = -1
        self.fetch()

    def fetch(self) -> bool:
        """Get the newest weights; False if it has them.

        Raises:
            Over: training is over.
            Unreachable: no learner has answered for two minutes.
        """
        message = ask_patiently("GET", f"{self._url}&have={self.version}")
        if not message:
            return False
        weights = unpack(message)
        self.version = int(weights.pop("version"))
        self.sampler = Sampler(weights)
        return True
