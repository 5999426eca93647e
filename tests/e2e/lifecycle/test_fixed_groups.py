"""A group of three members that speak over plain sockets stays whole whatever befalls one;
`tools.faults.whole_groups` does it ten times.
"""

from __future__ import annotations

from tests.e2e.kubectl import Kubectl
from tests.e2e.whole_groups import EVENTS, SOCKETS, WholeGroup, members_only


def test_a_group_of_fixed_size_stays_whole(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    with members_only(kubectl, namespace):
        group = WholeGroup(kubectl, namespace, image=python_image, program=SOCKETS)
        group.start()
        for event in EVENTS:
            group.befall(event)
        group.remove()
