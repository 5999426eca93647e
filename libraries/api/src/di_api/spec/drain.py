"""`spec.tasks[].drain`: how a pod is asked to finish its work before it is terminated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from di_api.spec.declared import Declared
from di_api.spec.kinds import TargetPort, Text, Texts, Whole
from di_api.spec.task_service import HIGHEST_PORT

LONGEST_PATH: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The drain request of a pod, and its timeout."""

    path: Annotated[
        str | None,
        Declared(
            kind=Text(LONGEST_PATH),
            about="Path of an HTTP GET that is answered once the pod has finished its work.",
            more="Exactly one of `path` and `command`.",
        ),
    ] = None
    port: Annotated[
        int | str | None,
        Declared(
            kind=TargetPort(HIGHEST_PORT),
            about="Port of the GET, a number or the name of a port of the main container.",
            more="Only with `path`.",
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        Declared(
            kind=Texts("argument", most=64, longest=4096),
            about="Program in the main container, and its arguments, that ends once the pod has "
            "finished its work.",
        ),
    ] = ()
    timeout_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1, 3600),
            about="Timeout of the drain in seconds, added to the pod's grace period.",
        ),
    ] = 30
