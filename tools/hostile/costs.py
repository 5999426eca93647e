"""Seconds of processor time that the webhook takes for each of the most expensive reviews.

    python -m tools.hostile.costs [BYTES]

Prints the worst ten, and the largest answer. Ends with 1 if one took SECONDS or more, at the least
of TRIES: a machine that does other things at the same time takes more of it for the same work.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from di_webhook.admission import mutate, validate
from di_webhook.conversion_review import answer as convert
from di_webhook.review import Answer
from tools.hostile.reviews import LARGEST, worst_conversions, worst_reviews

SECONDS: Final = 0.3
TRIES: Final = 5
_SHOWN: Final = 10
_WORTH_ANOTHER_TRY: Final = SECONDS / 2


def main() -> int:
    """Returns the exit code."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    rows = [
        (*_cost(decide, body), f"{path}: {name}, {len(body)} bytes")
        for path, decide, name, body in _bodies(size)
    ]
    rows.sort(reverse=True)
    for seconds, _, about in rows[:_SHOWN]:
        print(f"{seconds:.3f} s  {about}")
    _, longest, about = max(rows, key=lambda row: row[1])
    print(f"largest answer: {longest} bytes, {about}")
    return int(rows[0][0] >= SECONDS)


def _bodies(size: int) -> Iterator[tuple[str, Callable[[bytes], Answer], str, bytes]]:
    """Path, its function, a name and a body."""
    for name, body in worst_reviews(size):
        yield "validate", validate, name, body
        yield "mutate", mutate, name, body
    for name, body in worst_conversions(size):
        yield "convert", convert, name, body


def _cost(decide: Callable[[bytes], Answer], body: bytes) -> tuple[float, int]:
    """Seconds, the least of some tries if the first one is near the bound; bytes of the answer."""
    least, size = float("inf"), 0
    for _ in range(TRIES):
        began = time.thread_time()
        found = decide(body)
        least = min(least, time.thread_time() - began)
        size = len(json.dumps(found.body))
        if least < _WORTH_ANOTHER_TRY:
            break
    return least, size


if __name__ == "__main__":
    sys.exit(main())
