"""Two teams with queues of the allocator, installed as users install them: lent and taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from di_cluster.release import Release
from tests.e2e.conftest import BORROWER, GPUS, GUARANTEE, LENDER, NODES, QUOTA, named_namespace
from tests.e2e.gpu_jobs import learners, report, settled
from tests.e2e.kubectl import Kubectl


@pytest.fixture
def teams(release: Release, kubectl: Kubectl) -> Iterator[None]:
    """The two namespaces."""
    with ExitStack() as stack:
        for name in (LENDER, BORROWER):
            stack.enter_context(named_namespace(kubectl, name))
        yield


@pytest.mark.usefixtures("teams")
def test_a_quota_bounds_and_what_is_guaranteed_is_lent_and_taken_back(
    kubectl: Kubectl, gpu_nodes: list[str]
) -> None:
    everything = NODES * GPUS
    # Nobody else wants any: one team has all that it may have, much of it guaranteed to the other.
    kubectl.apply(learners("a", BORROWER))
    settled(kubectl, "a", BORROWER, lambda sizes: sizes["a"] >= 1)
    report(kubectl, "a", BORROWER)
    # The last few are not worth a restart, if it was given less at first.
    settled(kubectl, "a", BORROWER, lambda sizes: everything - GUARANTEE < sizes["a"] <= QUOTA)

    # Its owner wants its own back: more than the quarter that it would have by its weight.
    kubectl.apply(learners("b", LENDER))
    settled(kubectl, "b", LENDER, lambda sizes: sizes["b"] >= 1)
    report(kubectl, "b", LENDER)
    settled(kubectl, "b", LENDER, lambda sizes: sizes["b"] > everything // 4)
    settled(kubectl, "a", BORROWER, lambda sizes: 1 <= sizes["a"] < QUOTA)
