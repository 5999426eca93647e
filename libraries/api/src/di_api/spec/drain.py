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
            about="Path of an HTTP GET that is answered once the pod has finished what it has.",
            more="Either that or `command`.",
        ),
    ] = None
    port: Annotated[
        int | str | None,
        Declared(
            kind=TargetPort(HIGHEST_PORT),
            about="Where the GET goes, a number or the name of a port of the main container.",
            more="Goes with `path`.",
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        Declared(
            kind=Texts("argument", most=64, longest=4096),
            about="Program in the main container, and its arguments, that ends once the pod has "
            "finished what it has.",
        ),
    ] = ()
    timeout_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1, 3600),
            about="Seconds that it may take, by which the pod's grace period is longer.",
        ),
    ] = 30
