"""The options of `jobs.submit`, `Client.submit` and `LocalClient.submit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, TypedDict, TypeVar, get_type_hints

from di_cli.client.errors import BadCall
from di_cli.edits.manifests import Changes

Arguments: TypeAlias = Mapping[str, Any] | Sequence[str] | str
P = ParamSpec("P")
R = TypeVar("R")


class ProgramOptions(TypedDict, total=False):
    """The options that a program has everywhere; `Client.submit` describes them."""

    args: Arguments
    name: str | None
    entry: str | None
    requirements: str | Path | None
    learners: int
    collectors: int
    evaluators: int
    gpus: int


class LocalOptions(ProgramOptions, total=False):
    """The options of a job on this machine."""

    image: str | None
    replicas: Mapping[str, int] | None


class ClusterOptions(ProgramOptions, total=False):
    """The options of a job in a cluster."""

    image: str | Mapping[str, str] | None
    replicas: Mapping[str, int] | None
    template: str | None
    artifacts: str | None
    store: str | None


DEFAULTS: Final[ClusterOptions] = {
    "args": (),
    "name": None,
    "image": None,
    "entry": None,
    "requirements": None,
    "learners": 1,
    "collectors": 0,
    "evaluators": 0,
    "gpus": 0,
    "replicas": None,
    "template": None,
    "artifacts": None,
    "store": None,
}


def takes(options: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions with `**options`: it refuses other keywords, and shows each
    option in `help()` and in the completion of notebooks.
    """
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=hint)
        for name, hint in get_type_hints(options).items()
    ]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = signature(function)
        kept = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        called = own.replace(parameters=[*kept, *shown])

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            called.bind(*args, **kwargs)
            return function(*args, **kwargs)

        checked.__signature__ = called  # type: ignore[attr-defined]  # read by inspect.signature
        return checked

    return decorate


def counts_of(options: ProgramOptions) -> dict[str, int]:
    """Return the number of pods of each kind of task."""
    return {
        "learner": options.get("learners", DEFAULTS["learners"]),
        "collector": options.get("collectors", DEFAULTS["collectors"]),
        "evaluator": options.get("evaluators", DEFAULTS["evaluators"]),
    }


def requirements_of(options: ProgramOptions) -> str | None:
    """Return the path of the file for pip; None without one."""
    found = options.get("requirements")
    return None if found is None else str(found)


def local_changes_of(options: LocalOptions) -> Changes:
    """Return the changes of a manifest on this machine, where the image is that of containers."""
    return Changes(name=options.get("name"), replicas=options.get("replicas") or {})


def changes_of(options: ClusterOptions) -> Changes:
    """Return the changes of a manifest."""
    image = options.get("image")
    images = {"": image} if isinstance(image, str) else dict(image or {})
    return Changes(name=options.get("name"), images=images, replicas=options.get("replicas") or {})


def check_manifest(options: ProgramOptions) -> None:
    """Refuse options that a manifest has itself. Raises BadCall."""
    given = (options.get(each) for each in ("args", "entry", "requirements", "gpus"))
    if counts_of(options) == counts_of({}) and not any(given):
        return
    raise BadCall(
        "args, entry, requirements, gpus, learners, collectors and evaluators are for a "
        "program, folder or function",
        remedy='replicas={"collector": 4} changes a manifest',
    )
