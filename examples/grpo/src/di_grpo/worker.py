"""Every learner but the first one: computes gradients of its share of each batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import di_orchestrator as di
from di_grpo.grpo import gradient
from di_grpo.model.weights import Weights
from di_grpo.shares import Share
from di_orchestrator.arrays import pack, unpack

RELAY_SECONDS = 10.0
"""For the answer of the first learner; who asks asks again."""


def run(job: di.Job, leaving: threading.Event) -> None:
    """Work until the first learner says that training is over, or until `leaving` is set.

    It keeps nothing, so it needs no world of its process group: another process in its place asks
    for a share, and whatever share this one had the first learner computes.

    Raises:
        Unreachable: the first learner has been silent for two minutes.
    """
    first = f"http://{job.addresses(job.task)[0]}:{di.PORT}"
    version, weights = -1, Weights()
    # The Service of the task may send anybody here.
    with di.Hub(relay(first), job.port(), public=["/ready"]), suppress(di.Gone):
        while not leaving.is_set():
            message = di.call("GET", f"{first}/share?who={job.pod}")
            if not message:
                continue
            share = Share.of(unpack(message))
            if share.version != version:
                url = f"{first}/weights?who={job.pod}&have={version}"
                weights = unpack(di.call("GET", url))
                version = int(weights.pop("version"))
            if share.version != version:
                # It took too long to get here, and others have it by now.
                continue
            found = pack(version=version, index=share.index, **gradient(weights, share))
            di.call("POST", f"{first}/gradient", found)


def relay(url: str) -> Callable[[di.Asked], di.Reply]:
    """Answer as somebody else does: behind a Service any of its pods may be asked."""

    def answer(asked: di.Asked) -> di.Reply:
        try:
            body = di.call(
                asked.method, f"{url}{asked.target}", asked.body or None, seconds=RELAY_SECONDS
            )
        except di.Refused as error:
            return di.Reply(error.status, error.reason.encode())
        except di.Unreachable as error:
            return di.Reply(503, str(error).encode())
        return di.Reply(body=body)

    return answer
