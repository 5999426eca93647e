"""Which lanes `make check`, `make test` and `make test-all` have.

`make check` and `make test` leave out the tests that are marked ``extended``; `make test-all` runs
every test, those that need another project's programs (Kueue, KEDA, Prometheus) among them, and the
programs that try more than a test can.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tools.lanes.lane import Lane
from tools.prepare.items import Group

EXTENDED: Final = "extended"
"""The marker of tests that only `make test-all` runs."""


def _pytest(
    name: str, what: str, *paths: str, needs: Collection[Group] = (), disk: int = 0
) -> Lane:
    return Lane(name=name, what=what, arguments=["-m", "pytest", *paths], needs=needs, disk=disk)


def _integration(name: str, what: str, *folders: str, needs: Collection[Group]) -> Lane:
    paths = (f"tests/integration/{folder}" for folder in folders)
    return _pytest(name, what, *paths, needs=["control plane", *needs])


_NODE: Final[Sequence[Group]] = ("control plane", "helm", "node", "examples", "storage")
"""What tests of a release on a real node need."""
_OF_OPERATOR: Final = ("allocator", "builders", "lifecycle", "operator", "simulator")
"""Folders of unit tests that are about the operator's decisions: half of the time of all."""
_DECISIONS: Final = _pytest(
    "decisions",
    "what the operator decides, and makes for a job: no I/O",
    *(f"tests/unit/{each}" for each in _OF_OPERATOR),
    *("tests/golden", "tests/poison"),
)
_OF_USERS: Final = ("cli", "dashboard", "examples", "local", "sdk")
"""Folders of unit tests of what a user starts. They wait for loopback and processes half of the
time.
"""
_CLIENTS: Final = _pytest(
    "clients",
    "`di`, the page, local runs and the package in a program: no I/O but on loopback",
    *(f"tests/unit/{each}" for each in _OF_USERS),
)
_UNITS: Final = _pytest(
    "units",
    "all other rules and formats: no I/O but on loopback",
    "tests/unit",
    *(f"--ignore=tests/unit/{each}" for each in (*_OF_OPERATOR, *_OF_USERS)),
    needs=["soak"],
)

CHECK: Final[Sequence[Lane]] = (
    _CLIENTS,
    _DECISIONS,
    _UNITS,
    Lane(name="types", what="mypy over all of the code", arguments=["-m", "mypy"]),
    Lane(
        name="contracts",
        what="which package may import which",
        arguments=["-c", "from importlinter.cli import lint_imports_command as main; main()"],
    ),
    Lane(
        name="documents",
        what="generated pages are up to date, and every row of the documents has a test",
        arguments=["-m", "tools.documents", "--check"],
    ),
)
"""The lanes of `make check`."""

TEST: Final[Sequence[Lane]] = (
    _pytest(
        "node",
        "the chart installed on a real node",
        "tests/e2e",
        needs=[*_NODE, "containers", "peers"],
        disk=4,
    ),
    _CLIENTS,
    _integration(
        "local",
        "`di`, local runs, the local cluster, and what a release is made of",
        *("cluster", "local", "release"),
        needs=["node", "helm"],
    ),
    _integration(
        "server",
        "di-server, the API client and the HTTP fronts before a real API server",
        *("server", "serving", "api_client"),
        needs=["helm"],
    ),
    _integration(
        "operator", "the operator as a process before a real API server", "operator", needs=[]
    ),
    _DECISIONS,
    _UNITS,
    _integration(
        "admission",
        "what is refused, converted and rolled between versions",
        "admission",
        needs=["helm", "earlier version"],
    ),
    _pytest(
        "faults",
        "the operator stopped, cut off and frozen",
        "tests/faults",
        needs=["control plane", "kueue"],
    ),
    _integration(
        "page",
        "the page in Chromium, and what happened, kept and followed",
        *("page", "history"),
        needs=["helm", "browser", "storage"],
    ),
    _pytest(
        "chart",
        "what the chart renders, and what its schema refuses",
        "tests/chart",
        needs=["helm", "prometheus", "release"],
    ),
)
"""The lanes of `make test`, the longest ones first, so that none of them runs alone at the end."""

_FRAMEWORKS: Final = _pytest(
    "frameworks",
    "torch, JAX, PaddlePaddle, TensorFlow, XGBoost, MPI, Ray and DI-engine on a real node, and "
    "Stable-Baselines3, TRL and RLlib under `di run` and there",
    "tests/frameworks",
    needs=[*_NODE, "libraries"],
    # The images of the frameworks, once more in the store of the node.
    disk=10,
)

ALL: Final[Sequence[Lane]] = (
    _FRAMEWORKS,
    *TEST,
    _integration("kueue", "jobs in queues of a real Kueue", "kueue", needs=["helm", "kueue"]),
    _integration(
        "peers",
        "KEDA, Prometheus, other schedulers, experiment trackers",
        "peers",
        needs=["peers", "prometheus"],
    ),
    Lane(
        name="fault-plans",
        what="the fault plans of today: the operator stopped, cut off and frozen at each step",
        arguments=["-m", "tools.faults", "--daily", "800"],
        needs=["control plane"],
    ),
    Lane(
        name="fuzz",
        what="any input through every reader, and di-server's OpenAPI document: five minutes each, "
        "two readers at a time",
        arguments=["-m", "tools.fuzz", "--seconds", "300"],
        needs=["control plane"],
    ),
    Lane(
        name="soak",
        what="load while every service is rolled and killed, for five minutes",
        arguments=["-m", "tools.soak", "--seconds", "300"],
        needs=["control plane", "soak"],
    ),
)
"""The lanes of `make test-all`, the longest one first: it takes as long as four others."""


COMMANDS: Final[dict[str, Sequence[Lane]]] = {"check": CHECK, "test": TEST, "all": ALL}
AT_ONCE: Final = 3
"""Lanes side by side, on two cores. Most of them wait a third of their time, for a
cluster or for loopback."""

PROFILES: Final = {"check": "brief", "test": "di", "all": "thorough"}
"""The profile of the property tests, by command: how many examples they try."""


def chosen(lanes: Sequence[Lane], names: Sequence[str]) -> list[Lane]:
    """Return the lanes of these names, or all if there are none.

    Raises:
        LookupError: there is no such lane; the message names those that there are.
    """
    known = {lane.name: lane for lane in lanes}
    if unknown := [name for name in names if name not in known]:
        raise LookupError(f"no lane {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] if names else [*lanes]
