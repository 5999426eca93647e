"""The check of a node that a task gets without a command of its own; `nodeCheck` in docs/dijob.md.

Its text runs in the task's own image, by whatever Python 3 is there: nothing but the standard
library, and numpy if the image has it. It times a matrix product on the processor; the least of
some, since what else the node does for a moment is nothing to avoid it for.
"""

import importlib
import json
import operator
import time
from typing import Any

ROUNDS = 5


def plain_product() -> Any:
    """Multiply two matrices of 120 rows."""
    size = 120
    rows = [[float(row * column % 7) for column in range(size)] for row in range(size)]
    columns = [[row[at] for row in rows] for at in range(size)]
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in rows]


def numpy_product() -> Any:
    """Multiply two matrices of 1024 rows. Raises ImportError without numpy."""
    numpy = importlib.import_module("numpy")
    square = numpy.arange(1024.0 * 1024.0).reshape(1024, 1024) / 1e6
    return square @ square


def fastest() -> float:
    """Seconds of the fastest of some products."""
    product = numpy_product
    try:
        product()
    except ImportError:
        product = plain_product
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    with open("/dev/termination-log", "w") as report:
        json.dump({"seconds": round(fastest(), 6)}, report)
