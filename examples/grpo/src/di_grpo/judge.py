"""The judge: rewards texts. It knows no model, and could be another program in another language."""

from __future__ import annotations

import json
import re
import threading

from di_grpo.client import Answer
from di_grpo.hub import Request, serve
from di_grpo.peers import JUDGE_PORT

MOST_TEXTS = 4096
_ADDITION = re.compile(r"(\d{2})\+(\d{2})=(\d{3})\.")


def run(leaving: threading.Event) -> None:
    """Answer until `leaving` is set."""
    hub = serve(answer, port=JUDGE_PORT)
    leaving.wait()
    hub.shutdown()


def answer(request: Request) -> Answer:
    """The rewards of texts.

    Raises:
        LookupError: there is no such path, or no texts.
        ValueError: it is not JSON, or too many texts.
    """
    match request.method, request.path:
        case "GET", "/ready":
            return Answer(200)
        case "POST", "/rewards":
            texts = json.loads(request.body)["texts"]
            if len(texts) > MOST_TEXTS:
                raise ValueError(f"at most {MOST_TEXTS} texts at a time")
            return Answer(200, json.dumps({"rewards": [reward(text) for text in texts]}).encode())
        case _:
            raise LookupError(request.path)


def reward(text: str) -> float:
    """1 for an addition that is right to the letter, 0 for anything else."""
    found = _ADDITION.fullmatch(text)
    return float(found is not None and int(found[1]) + int(found[2]) == int(found[3]))
