"""Checks of names and values by the patterns of core/v1. None means valid."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from di_api.dns_names import DNS_LABEL, LONGEST_PORT_NAME, MAX_LABEL, is_dns_label, is_port_name

Check = Callable[[Any], str | None]

_LONGEST_PREFIX: Final = 253
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX: Final = re.compile(rf"{DNS_LABEL}(\.{DNS_LABEL})*")
_VARIABLE: Final = re.compile(r"[ -<>-~]+")
"""Printable ASCII without `=`, as the newest API servers accept."""


def fault_of_key(value: Any) -> str | None:
    """Return the fault in a key of labels, annotations or taints, or in the name of a resource."""
    prefix, slash, name = value.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return "what is before the slash of a key must be a DNS name in lower case"
    if len(name) > MAX_LABEL or not _NAME.fullmatch(name):
        return (
            f"a key must have 1 to {MAX_LABEL} letters, digits, '-', '_' and '.', with a letter or "
            "digit at both ends; a DNS name and one slash may stand before it"
        )
    return None


def fault_of_label(value: Any) -> str | None:
    """Return the fault in the value of a label."""
    if value and (len(value) > MAX_LABEL or not _NAME.fullmatch(value)):
        return (
            f"the value of a label must be empty or have at most {MAX_LABEL} letters, digits, '-', "
            "'_' and '.', with a letter or digit at both ends"
        )
    return None


def fault_of_variable(value: Any) -> str | None:
    """Return the fault in the name of a variable."""
    if _VARIABLE.fullmatch(value):
        return None
    return "the name of a variable must have printable ASCII characters without '=', at least one"


def fault_of_name(value: Any) -> str | None:
    """Return the fault in the name of a container or a volume."""
    if is_dns_label(value):
        return None
    return f"must be a DNS label: 1 to {MAX_LABEL} lower-case letters, digits and dashes"


def fault_of_port_name(value: Any) -> str | None:
    """Return the fault in the name of a port."""
    if value == "" or is_port_name(value):
        return None
    return (
        f"the name of a port must have at most {LONGEST_PORT_NAME} lower-case letters, digits and "
        "single dashes between them, at least one letter"
    )


def between(least: int, most: int | None = None) -> Check:
    """Return a check that a number is within bounds."""

    def check(value: Any) -> str | None:
        if value < least:
            return f"must be {least} or more"
        return None if most is None or value <= most else f"must be {most} or less"

    return check
