"""One API server with an audit log for all tests of faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from di_api.kube.config import KubeConfig
from tests.failures.sources import shown_log
from tools.faults.session import api_server, audit_log


@pytest.fixture(scope="session")
def fault_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where operators leave their logs and the API server its audit log."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def fault_server(fault_folder: Path) -> Iterator[KubeConfig]:
    """kube-apiserver with the CRD; no node runs anything."""
    with api_server(fault_folder) as config, shown_log(audit_log(fault_folder)):
        yield config


def chosen_parameters(session: pytest.Session, name: str) -> set[object]:
    """The values of a parameter in the tests that are going to run."""
    calls = (getattr(item, "callspec", None) for item in session.items)
    return {call.params[name] for call in calls if call is not None and name in call.params}
