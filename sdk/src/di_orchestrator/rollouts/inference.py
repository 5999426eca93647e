"""What vLLM and SGLang say of themselves over HTTP. Pure but for `look`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from di_orchestrator.server.exchange import Answer
from di_orchestrator.server.transport import send_once

LOOK_SECONDS = 5.0
"""For each request: a server that is busy answers late."""
MOST_BYTES = 4 * 1024 * 1024
_IN_HAND = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
)
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^\n]*\})?[ \t]+(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """What a look at a server has found.

    Attributes:
        is_up: whether it serves.
        in_hand: requests that it computes or has queued; None: it does not say.
        weight_version: of the weights it has; None: it does not say.
    """

    is_up: bool
    in_hand: int | None = None
    weight_version: str | None = None


def look(url: str) -> Seen:
    """Ask a server at this URL how it is; never raises."""
    if _get(f"{url}/health") is None:
        return Seen(False)
    metrics, model = _get(f"{url}/metrics"), _get(f"{url}/get_model_info")
    return Seen(
        True,
        None if metrics is None else in_hand(metrics.decode(errors="replace")),
        None if model is None else weight_version(model),
    )


def in_hand(metrics: str) -> int | None:
    """Requests that are computed or queued, by the server's metrics; None: they do not say."""
    counts = [_number(text) for name, text in _SAMPLE.findall(metrics) if name in _IN_HAND]
    return math.ceil(sum(counts)) if counts else None


def weight_version(model: bytes) -> str | None:
    """Of SGLang's model info; None: it does not say."""
    try:
        found = json.loads(model)["weight_version"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return str(found)[:63]


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else 0.0


def _get(url: str) -> bytes | None:
    found = send_once("GET", url, seconds=LOOK_SECONDS, most_bytes=MOST_BYTES)
    return found.body if isinstance(found, Answer) and found.status == 200 else None
