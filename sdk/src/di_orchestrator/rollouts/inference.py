"""State of vLLM and SGLang servers over HTTP. Pure except for `look`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from di_orchestrator.server.exchange import Answer
from di_orchestrator.server.transport import send_once

LOOK_SECONDS = 5.0
"""Seconds for each request: a busy server responds late."""
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
    """Result of a check.

    Attributes:
        is_up: whether it serves.
        in_hand: number of running and queued requests; None: unknown.
        weight_version: version of its weights; None: unknown.
    """

    is_up: bool
    in_hand: int | None = None
    weight_version: str | None = None


def look(url: str) -> Seen:
    """Check the state of a server at this URL; never raises."""
    if _get(f"{url}/health") is None:
        return Seen(False)
    metrics, model = _get(f"{url}/metrics"), _get(f"{url}/get_model_info")
    return Seen(
        True,
        None if metrics is None else in_hand(metrics.decode(errors="replace")),
        None if model is None else weight_version(model),
    )


def in_hand(metrics: str) -> int | None:
    """Return the number of running and queued requests in the server's metrics; None: unknown."""
    counts = [_number(text) for name, text in _SAMPLE.findall(metrics) if name in _IN_HAND]
    return math.ceil(sum(counts)) if counts else None


def weight_version(model: bytes) -> str | None:
    """Return the weight version in SGLang's model info; None: unknown."""
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
