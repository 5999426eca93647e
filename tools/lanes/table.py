"""Which lanes `make check`, `make test` and `make test-all` have.

`make check` and `make test` leave out the tests that are marked ``extended``; `make test-all` runs
every test, and the programs that try more than a test can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.lanes.lane import Lane

EXTENDED: Final = "extended"
"""The marker of tests that only `make test-all` runs."""
_INTEGRATION: Final = Path("tests/integration")


def _files(*patterns: str) -> list[str]:
    return sorted({str(file) for each in patterns for file in _INTEGRATION.glob(each)})


def _pytest(name: str, what: str, paths: Iterable[str], *options: str) -> Lane:
    return Lane(name=name, what=what, arguments=["-m", "pytest", *paths, *options])


_CORE: Final = _files("test_operator_*.py", "test_server_*.py")
"""Operator and di-server before an API server that is theirs alone."""
_PAGE: Final = _files("test_dashboard*.py", "test_shared_dashboard.py", "test_front*.py")
_HISTORY: Final = _files("test_history_*.py")
_PEERS: Final = _files(
    "test_keda.py", "test_monitoring.py", "test_gang*.py", "test_provisioning.py"
)
_KUEUE: Final = ["tests/integration/kueue"]
_APART: Final = (*_CORE, *_PAGE, *_HISTORY, *_PEERS, *_KUEUE)

_UNITS: Final = _pytest(
    "units",
    "decisions, parsing, rules and the chart: no API server",
    ("tests/unit", "tests/golden", "tests/poison", "tests/chart"),
)
_SERVICES: Final = _pytest(
    "services",
    "operator and di-server as processes before a real API server, and stopped, cut off and frozen",
    (*_CORE, "tests/faults"),
)
_OTHERS: Final = _pytest(
    "integration",
    "all other services, commands and the local cluster before a real API server",
    ("tests/integration",),
    *(f"--ignore={each}" for each in _APART),
)
_NODE: Final = _pytest("node", "the chart installed on a real node", ("tests/e2e",))

CHECK: Final[Sequence[Lane]] = (
    _pytest(
        "units",
        "decisions, parsing and rules: no I/O but on loopback",
        ("tests/unit", "tests/golden", "tests/poison"),
    ),
    Lane(name="types", what="mypy over all of the code", arguments=["-m", "mypy"]),
    Lane(
        name="contracts",
        what="which package may import which",
        arguments=["-c", "from importlinter.cli import lint_imports_command as main; main()"],
    ),
    Lane(
        name="documents",
        what="what is generated is what the declarations give, and every row has a test",
        arguments=["-m", "tools.documents", "--check"],
    ),
)
"""The lanes of `make check`."""

TEST: Final[Sequence[Lane]] = (
    _NODE,
    _OTHERS,
    _SERVICES,
    _UNITS,
    _pytest("page", "the page in Chromium, and who is let in", _PAGE),
    _pytest("history", "what happened, kept and followed", _HISTORY),
    _pytest("kueue", "jobs in queues of a real Kueue", _KUEUE),
    _pytest("peers", "KEDA, Prometheus and other schedulers", _PEERS),
)
"""The lanes of `make test`, the longest ones first."""

ALL: Final[Sequence[Lane]] = (
    *TEST,
    _pytest("frameworks", "torch, JAX, Ray and DI-engine on a real node", ("tests/frameworks",)),
    Lane(
        name="fault-plans",
        what="every fault plan: the operator stopped, cut off and frozen at each of its moments",
        arguments=["-m", "tools.faults"],
    ),
    Lane(
        name="fuzz",
        what="any input through every reader, and di-server's OpenAPI document, for five minutes",
        arguments=["-m", "tools.fuzz", "--seconds", "300"],
    ),
    Lane(
        name="soak",
        what="load while every service is rolled and killed, for five minutes",
        arguments=["-m", "tools.soak", "--seconds", "300"],
    ),
)
"""The lanes of `make test-all`."""


COMMANDS: Final[dict[str, Sequence[Lane]]] = {"check": CHECK, "test": TEST, "all": ALL}


def chosen(lanes: Sequence[Lane], names: Sequence[str]) -> list[Lane]:
    """Return the lanes of these names, or all if there are none.

    Raises:
        LookupError: there is no such lane; the message names those that there are.
    """
    known = {lane.name: lane for lane in lanes}
    if unknown := [name for name in names if name not in known]:
        raise LookupError(f"no lane {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else [*lanes]
