"""Loading of the configured policy, including policies of other packages.

A policy is registered under the entry point group `di_operator.policies`. It is a class, or any
function, that takes the configured arguments by keyword and returns a Policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from di_operator.allocator.model.policy import Policy

GROUP: Final = "di_operator.policies"
_METHODS: Final = ("allocate", "optimize")


class PolicyError(Exception):
    """The configured policy cannot be used; the message says what to change."""


def installed_policies() -> list[EntryPoint]:
    """Return the policies that are registered in this environment."""
    return list(entry_points(group=GROUP))


def load_policy(
    name: str,
    arguments: Mapping[str, Any],
    *,
    installed: Callable[[], Iterable[EntryPoint]] = installed_policies,
) -> Policy:
    """Return the policy of that name, made with these arguments.

    Raises:
        PolicyError: none or more than one has that name, it cannot be imported, does not take
            these arguments, refuses them, or is not a policy.
    """
    found = _find(name, list(installed()))
    try:
        make = found.load()
    except Exception as error:
        # A user's module can raise anything while it is imported.
        raise PolicyError(f"policy {name}: {found.value} cannot be loaded: {error}") from error
    if not callable(make):
        raise PolicyError(f"policy {name}: {found.value} cannot be called to make a policy")
    _check_arguments(name, make, arguments)
    try:
        policy = make(**arguments)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"policy {name}: {error}") from error
    missing = [method for method in _METHODS if not callable(getattr(policy, method, None))]
    if missing:
        raise PolicyError(f"policy {name}: {found.value} has no method {' or '.join(missing)}")
    result: Policy = policy
    return result


def _find(name: str, installed: list[EntryPoint]) -> EntryPoint:
    named = [entry for entry in installed if entry.name == name]
    # An editable and a built copy of one package both register it; that is one policy.
    values = sorted({entry.value for entry in named})
    if len(values) > 1:
        raise PolicyError(f"policy {name} is registered more than once: {', '.join(values)}")
    if named:
        return named[0]
    names = sorted({entry.name for entry in installed})
    close = get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise PolicyError(f"policy {name} is not installed (there are: {', '.join(names)}){hint}")


def _check_arguments(name: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        return  # A class without an inspectable signature raises an error itself when it is called.
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise PolicyError(f"policy {name}: {error}; it takes {signature}") from error
