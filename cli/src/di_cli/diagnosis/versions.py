"""Versions of the program, the installation and the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.field_error import items, mapping
from di_cli.diagnosis.facts import Answer

_LABEL: Final = "app.kubernetes.io"
_NONE: Final = "not installed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions that `di version` prints.

    Attributes:
        program: of `di` itself.
        kubernetes: of the API server; empty if it was not read.
        served: versions of DIJobs that the API server serves; empty if there are none.
        services: version by component.
        unread: why a part is missing, by its name.
    """

    program: str
    kubernetes: str = ""
    served: tuple[str, ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield a line for each part that was read, or the reason."""
        listed = ", ".join(f"{name} {each}" for name, each in self.services.items())
        parts = {
            "di": self.program,
            "services": listed,
            "DIJob": ", ".join(self.served),
            "Kubernetes": self.kubernetes,
        }
        for name, text in parts.items():
            if shown := text or self.unread.get(name):
                yield f"{name:10}  {shown}"

    def as_object(self) -> dict[str, Any]:
        """Return the same for programs; parts that were not read are absent."""
        parts = {
            "di": self.program,
            "services": dict(self.services),
            "dijob": list(self.served),
            "kubernetes": self.kubernetes,
        }
        return {name: value for name, value in parts.items() if value}


def versions(program: str, *, kubernetes: Answer, group: Answer, deployments: Answer) -> Versions:
    """Return the versions in the responses of an API server.

    Args:
        program: version of `di`.
        kubernetes: response to `/version`.
        group: discovery of the API group of DIJobs.
        deployments: those of the releases.
    """
    services = {_label(each, "component"): _label(each, "version") for each in deployments.found}
    return Versions(
        program=program,
        kubernetes=str(_first(kubernetes).get("gitVersion") or ""),
        served=tuple(
            str(mapping(each).get("version")) for each in items(_first(group).get("versions"))
        ),
        services=dict(sorted(services.items())),
        unread={
            "services": _why(deployments),
            "DIJob": _why(group),
            "Kubernetes": _why(kubernetes),
        },
    )


def _first(answer: Answer) -> Mapping[str, Any]:
    return answer.found[0] if answer.found else {}


def _why(answer: Answer) -> str:
    if answer.is_good or answer.is_missing:
        return _NONE
    return f"not known: {answer.words or 'you are not allowed to read it'}"


def _label(obj: Mapping[str, Any], key: str) -> str:
    labels = mapping(mapping(obj.get("metadata")).get("labels"))
    return str(labels.get(f"{_LABEL}/{key}") or "")
