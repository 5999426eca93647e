"""Failed pods: counted once, then replaced, until backoffLimit is spent.

Counting and replacing are two reconciles. The first one only writes the status, with the UIDs
of the failed pods; the second one, which reads these UIDs, deletes the pods. A crash between the
two loses nothing and counts nothing twice.
"""

from __future__ import annotations

from di_api.phase import Phase
from di_operator.lifecycle.losses import countable, is_counting
from di_operator.lifecycle.pods import failure_text, first_failed
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def judge_failures(snapshot: Snapshot) -> Verdict | None:
    """Count pods that failed since the last status: one restart for all of them together."""
    failed = countable(snapshot, snapshot.failed)
    if not failed or snapshot.spec is None:
        return None
    if is_counting(snapshot):
        what = f"{count_of(len(snapshot.failed), 'failed pod')} left to replace"
        return Verdict(phase=Phase.RESTARTING, message=what, counted=tuple(failed))
    first = first_failed(failed)
    cause = f"pod {first.name} failed first: {failure_text(first)}"
    what = f"{count_of(len(failed), 'pod')} failed"
    spent, limit = snapshot.status.restarts, snapshot.spec.backoff_limit
    if spent >= limit:
        used = f"{count_of(spent, 'restart')} of {limit} used" if limit else "no restart allowed"
        return Verdict(
            phase=Phase.FAILED, message=f"{what}, {used}; {cause}", counted=tuple(failed)
        )
    return Verdict(
        phase=Phase.RESTARTING,
        message=f"{what}, restart {spent + 1} of {limit}; {cause}",
        restarts=1,
        counted=tuple(failed),
    )
