"""Check that the clocks of this machine, the nodes and the operator agree with the API server's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from di_api.field_error import mapping
from di_api.timestamps import parse_time
from di_api.wording import listed
from di_cli.diagnosis.facts import Answer, Facts
from di_cli.diagnosis.finding import Finding, fault, unread, warning

NOTICED: Final = 30.0
"""Difference in seconds from which displayed times are confusing."""
HARMFUL: Final = 300.0
"""Difference in seconds from which tokens and certificates can count as expired, or not
valid yet.
"""
AHEAD: Final = 5.0
"""Tolerance in seconds for a Lease that is renewed in the future: dates of responses have whole
seconds.
"""
_SHOWN: Final = 5


def check(facts: Facts) -> Iterator[Finding]:
    """Check the clocks."""
    difference = (facts.local_now - facts.now).total_seconds()
    if abs(difference) >= NOTICED:
        found = fault if abs(difference) >= HARMFUL else warning
        yield found(
            f"the clock of this machine is {abs(difference):.0f} s "
            f"{'ahead of' if difference > 0 else 'behind'} the API server's",
            remedy="have it set by NTP: tokens and certificates are judged by it",
        )
    if not facts.node_leases.is_good:
        yield unread(facts.node_leases, "the Leases of nodes")
    fast = [*_fast(facts.node_leases, facts), *_fast(facts.leases, facts)]
    if fast:
        yield warning(
            f"clocks that are ahead of the API server's: {listed(fast, _SHOWN)}",
            where="their Leases are renewed in the future",
            remedy="have these nodes' clocks set by NTP",
        )


def _fast(leases: Answer, facts: Facts) -> Iterator[str]:
    for lease in leases.found:
        renewed = parse_time(mapping(lease.get("spec")).get("renewTime"))
        if renewed is not None and (renewed - facts.now).total_seconds() > AHEAD:
            ahead = (renewed - facts.now).total_seconds()
            yield f"{mapping(lease.get('metadata')).get('name')} ({ahead:.0f} s)"
