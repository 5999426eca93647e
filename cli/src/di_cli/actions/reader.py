"""A pod that reads what a job has left on its claims, for as long as a command needs it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from di_cli.edits.kept_files import READER, KeptPath, reader_pod
from di_cli.output import note
from di_cli.session import Session
from di_cli.temporary_pod import running

_MOST_OF_NAME: Final = 40
_REMEDY: Final = "--image, if that of the task cannot be pulled or has no sh; else try again"


@contextmanager
def reading(
    session: Session,
    job: dict[str, Any],
    kept: Sequence[KeptPath],
    image: str,
    node: str = "",
) -> Iterator[str]:
    """Have a running pod with the paths of one task, and delete it in the end.

    Raises:
        CommandError: it does not start; the message has what it waits for.
    """
    of = str(job["metadata"]["name"])
    name = f"{of[:_MOST_OF_NAME].rstrip('-.')}-{READER}-{secrets.token_hex(3)}"
    note(f"pod {name} reads the claims of {of}")
    body = reader_pod(job, kept, name, image, node)
    with running(session, body, "reads the claims", _REMEDY) as pod:
        yield pod
