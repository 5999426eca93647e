"""The judge: rewards texts. It knows no model, and could be another program in another language."""

from __future__ import annotations

import json
import re
import threading

import di_orchestrator as di

PORT = 8000
MOST_TEXTS = 4096
_ADDITION = re.compile(r"(\d{2})\+(\d{2})=(\d{3})\.")


def run(leaving: threading.Event) -> None:
    """Answer until `leaving` is set."""
    with di.Hub(answer, PORT, public=["/ready"]):
        leaving.wait()


def answer(asked: di.Asked) -> di.Reply:
    """The rewards of texts.

    Raises:
        LookupError: there is no such path, or no texts.
        ValueError: it is not JSON, or too many texts.
    """
    match asked.method, asked.path:
        case "GET", "/ready":
            return di.Reply()
        case "POST", "/rewards":
            texts = json.loads(asked.body)["texts"]
            if len(texts) > MOST_TEXTS:
                raise ValueError(f"at most {MOST_TEXTS} texts at a time")
            return di.Reply(body=json.dumps({"rewards": [reward(text) for text in texts]}).encode())
        case _:
            raise LookupError(asked.path)


def reward(text: str) -> float:
    """1 for an addition that is right to the letter, 0 for anything else."""
    found = _ADDITION.fullmatch(text)
    return float(found is not None and int(found[1]) + int(found[2]) == int(found[3]))
