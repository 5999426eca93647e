"""Seconds of processor time that the webhook takes for each of the most expensive reviews.

    python -m tools.hostile.costs [BYTES]

Prints the worst ten, and the largest answer. Ends with 1 if one took SECONDS or more.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from di_webhook.admission import mutate, validate
from tools.hostile.reviews import LARGEST, worst_reviews

SECONDS: Final = 0.3
_SHOWN: Final = 10


def main() -> int:
    """Returns the exit code."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    rows = []
    for name, body in worst_reviews(size):
        for decide in (validate, mutate):
            began = time.thread_time()
            answer = decide(body)
            seconds = time.thread_time() - began
            about = f"{decide.__name__}: {name}, {len(body)} bytes"
            rows.append((seconds, len(json.dumps(answer.body)), about))
    rows.sort(reverse=True)
    for seconds, _, about in rows[:_SHOWN]:
        print(f"{seconds:.3f} s  {about}")
    _, longest, about = max(rows, key=lambda row: row[1])
    print(f"largest answer: {longest} bytes, {about}")
    return int(rows[0][0] >= SECONDS)


if __name__ == "__main__":
    sys.exit(main())
