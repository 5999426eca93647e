"""The message of whatever reported a problem, as one line for the first line of an explanation."""

from __future__ import annotations

import re
from typing import Final

from di_api.explain.observations import REJECTED, Observation, Source

NOT_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers that the runtime could not start: its message is theirs."""
LONGEST: Final = 600
"""Maximum number of characters of a message, refusals of the API server apart."""
_FIRST_POD: Final = " first: "
"""Ends the operator's own part of its message, which has the count of pods and the first one."""
_PREEMPTION: Final = re.compile(r"\.? ?preemption: \d+/\d+ nodes.*$", re.IGNORECASE)
"""What the scheduler adds about preemption, which repeats the count of nodes."""
_RUNTIME: Final = re.compile(r"^.*unable to start container process: |: unknown$")
"""What the container runtime puts around its own message."""
_OF_RPC: Final = re.compile(r"rpc error: code = \w+ desc = ")


def own_message(seen: Observation) -> str:
    """Return the message of an observation's source, without what only repeats the source."""
    match seen.source:
        case Source.CONDITION:
            return one_line(of_operator(seen.text))
        case Source.POD:
            is_said = seen.reason in seen.text or seen.reason == REJECTED
            return one_line(seen.text if is_said else seen.message)
        case Source.ENDED:
            # The message of any other end is the program's log tail.
            return one_line(seen.text) if seen.reason in NOT_STARTED else ""
        case Source.LOG:
            return ""
        case Source.WAITING:
            return one_line(seen.message if seen.reason not in seen.text else seen.text)
        case _:
            return one_line(seen.text or seen.reason)


def of_operator(text: str) -> str:
    """Return the reported part of an operator's message: what follows the first pod's name."""
    _, found, reported = text.partition(_FIRST_POD)
    return reported if found else text


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return a message in one line, without the wrappers of scheduler and container runtime."""
    line = " ".join(text.split())
    line = _PREEMPTION.sub("", _RUNTIME.sub("", _OF_RPC.sub("", line))).rstrip(". :")
    return line if len(line) <= longest else f"{line[: longest - 3]}..."
