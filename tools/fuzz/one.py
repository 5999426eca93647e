"""One target in this process, until libFuzzer ends it.

    python -m tools.fuzz.one TARGET [-option=value ...] [CORPUS ...]

An input that was found is repeated by its file: `python -m tools.fuzz.one TARGET FILE`.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from pathlib import Path
from random import Random

import atheris
import structlog

with atheris.instrument_imports(include=["di_api", "di_server", "di_webhook"]):
    from tools.fuzz.targets import TARGETS

from tools.fuzz.mutations import changed, vocabulary

_BLIND = 0.2
"""Share of changes to JSON that do not keep it JSON."""


def main() -> None:
    target = TARGETS[sys.argv[1]]
    # A line for each request would be most of the time.
    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
    words = vocabulary([seed.read_bytes()[target.head :] for seed in target.seeds.iterdir()])

    def mutate(data: bytes, longest: int, seed: int) -> bytes:
        rng = Random(seed)
        head, text = data[: target.head], data[target.head :]
        new = None if rng.random() < _BLIND else changed(text, rng, words)
        if new is None or target.head + len(new) > longest:
            return bytes(atheris.Mutate(data, longest))
        if target.head and rng.random() < _BLIND:
            head = rng.randbytes(target.head)
        return head + new

    folder = next(
        (each.partition("=")[2] for each in sys.argv if each.startswith("-artifact_prefix=")), ""
    )

    def feed(data: bytes) -> None:
        try:
            target.feed(data)
        except BaseException:
            # libFuzzer writes it as well, under this name, if its own alarm clock lets it.
            file = f"{folder}crash-{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"
            Path(file).write_bytes(data)
            print(f"Test unit written to {file}", file=sys.stderr, flush=True)
            raise

    arguments = [sys.argv[0], *sys.argv[2:]]
    if target.is_json:
        atheris.Setup(arguments, feed, custom_mutator=mutate)
    else:
        atheris.Setup(arguments, feed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
