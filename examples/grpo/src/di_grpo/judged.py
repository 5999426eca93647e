"""Asking the judge."""

from __future__ import annotations

import json

import numpy as np

from di_grpo.client import ask_patiently
from di_grpo.model.problems import Tokens, decode
from di_grpo.model.weights import Floats
from di_grpo.peers import Peers


def rewards_of(texts: Tokens, peers: Peers) -> Floats:
    """What the judge gives for each text.

    Raises:
        Refused, Unreachable: the judge gives nothing.
    """
    body = json.dumps({"texts": decode(texts)}).encode()
    said = json.loads(ask_patiently("POST", f"{peers.judge_service}/rewards", body))
    return np.array(said["rewards"], np.float32)
