"""Every learner but the first one: computes gradients of its share of each batch."""

from __future__ import annotations

import threading

from di_grpo.client import Over, ask_patiently
from di_grpo.grpo import gradient
from di_grpo.hub import relay, serve
from di_grpo.messages import pack, unpack
from di_grpo.model.weights import Weights
from di_grpo.peers import PORT, Peers
from di_grpo.shares import Share


def run(peers: Peers, leaving: threading.Event) -> None:
    """Work until the first learner says that training is over, or until `leaving` is set.

    It keeps nothing, so it needs no world of its process group: another process in its place asks
    for a share, and whatever share this one had the first learner computes.

    Raises:
        Unreachable: the first learner has been silent for two minutes.
    """
    # The Service of the task may send anybody here.
    hub = serve(relay(peers.first_learner), port=PORT)
    who = f"{peers.task}-{peers.index}"
    version, weights = -1, Weights()
    try:
        while not leaving.is_set():
            message = ask_patiently("GET", f"{peers.first_learner}/share?who={who}")
            if not message:
                continue
            share = Share.of(unpack(message))
            if share.version != version:
                url = f"{peers.first_learner}/weights?who={who}&have={version}"
                weights = unpack(ask_patiently("GET", url))
                version = int(weights.pop("version"))
            if share.version != version:
                # It took too long to get here, and others have it by now.
                continue
            found = pack(version=version, index=share.index, **gradient(weights, share))
            ask_patiently("POST", f"{peers.first_learner}/gradient", found)
    except Over:
        return
    finally:
        hub.shutdown()
