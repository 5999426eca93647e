"""Plans that have found a bug, as short as they could be made; they run in every test run."""

from __future__ import annotations

from tools.faults.generate import HELD
from tools.faults.plan import Drop, Fault, Hold, Kill, Lose, Notice, Plan, Refuse, Request, Rewind


def _patch(nth: int) -> Request:
    return Request(verb="update", what="dijobs/status", name="a", nth=nth)


REGRESSIONS = (
    # A 404 on a write made the operator take the job for deleted until it was restarted.
    Plan(workload="success", rule="bug", faults=(Fault(at=_patch(2), do=Refuse(404)),)),
    # A 404 on a delete: the pod was taken for gone and left running.
    Plan(
        workload="scale-in",
        rule="bug",
        faults=(Fault(at=Request(verb="delete", what="pods", name="a-work-1"), do=Refuse(404)),),
    ),
    # A 404 on the delete of a failed pod: it was taken for the new one, and then for lost.
    Plan(
        workload="failure",
        rule="bug",
        faults=(Fault(at=Request(verb="delete", what="pods", name="a-work-0"), do=Refuse(404)),),
    ),
    # The end of the job came late: its pods, deleted with it, were created again.
    Plan(
        workload="delete",
        rule="bug",
        faults=(
            Fault(at=Notice(what="dijobs", kind="DELETED", name="a"), do=Hold(HELD, whole=True)),
        ),
    ),
    Plan(
        workload="delete",
        rule="bug",
        faults=(Fault(at=Notice(what="dijobs", kind="DELETED", name="a"), do=Drop()),),
    ),
    # A pod that the watch was late to show was counted as lost.
    Plan(
        workload="suspend",
        rule="bug",
        faults=(
            Fault(
                at=Notice(what="pods", kind="ADDED", name="a-work-1"), do=Hold(HELD, whole=False)
            ),
        ),
    ),
    # After a crash the job was shown as it was before it was suspended: pods came back.
    Plan(
        workload="suspend",
        rule="bug",
        faults=(
            Fault(
                at=Request(verb="delete", what="pods", name="a-work-1"),
                do=Kill(answered=True, rewind=Rewind(what=("dijobs",), back=3, seconds=HELD)),
            ),
        ),
    ),
    # After a crash all was shown as it was before the pods: they were counted as lost.
    Plan(
        workload="recreate",
        rule="bug",
        faults=(
            Fault(
                at=_patch(1),
                do=Kill(
                    answered=True,
                    rewind=Rewind(what=("dijobs", "pods", "services"), back=3, seconds=HELD),
                ),
            ),
        ),
    ),
    # A Warning whose answer was lost was told again, and counted twice.
    Plan(
        workload="replace",
        rule="bug",
        faults=(
            Fault(
                at=Request(verb="create", what="events", name="ReplicasReplaced"),
                do=Lose(carried_out=True),
            ),
        ),
    ),
)
