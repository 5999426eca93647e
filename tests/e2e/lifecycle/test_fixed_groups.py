"""A group of three members that speak over plain sockets stays whole whatever befalls one."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.whole_groups import EVENTS, SOCKETS, WholeGroup, members_only


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.extended)])
def test_a_group_of_fixed_size_stays_whole(
    kubectl: Kubectl, namespace: str, python_image: str, times: int
) -> None:
    with members_only(kubectl, namespace):
        group = WholeGroup(kubectl, namespace, image=python_image, program=SOCKETS)
        for _ in range(times):
            group.start()
            for event in EVENTS:
                group.befall(event)
            group.remove()
