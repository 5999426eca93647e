"""Which tests show what README.md says is to be seen "When something is wrong": the page's rows.

`tests/unit/test_documents.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BLOCKED: Final = "e2e/test_blocked.py"

ROWS: Final[Mapping[str, tuple[str, ...]]] = {
    "`kubectl apply` is refused": (
        "e2e/test_install.py::test_a_bad_job_is_refused_with_the_path_of_its_mistake",
    ),
    "the job stays `Pending`": (
        f"{_BLOCKED}::test_a_job_that_waits_says_for_what",
        f"{_BLOCKED}::test_a_job_whose_pods_cannot_run_says_why",
        "e2e/test_allocation.py::test_a_job_whose_only_node_is_taken_says_that_it_waits",
        "integration/operator/test_allocation.py::"
        "test_a_namespace_has_no_more_than_its_quota_and_a_job_says_that_it_waits_for_it",
        "integration/kueue/test_queued_jobs.py"
        "::test_a_job_waits_for_a_queue_that_is_not_there_and_runs_on_where_one_was_deleted",
    ),
    "the job is `Starting` or `Running`, and some pods are not": (
        f"{_BLOCKED}::test_a_job_whose_pods_cannot_run_says_why",
        f"{_BLOCKED}::test_a_coordinator_that_crashes_again_and_again_is_told_of",
        f"{_BLOCKED}::test_what_a_node_does_not_make_ready_is_told_of_when_it_lasts",
    ),
    "the job is `Failed`": (
        "e2e/test_restarts.py::test_a_job_fails_when_its_restarts_are_spent",
        "e2e/test_failure_policy.py::test_rules_decide_by_reason_exit_code_and_task",
        f"{_BLOCKED}::test_an_example_that_runs_out_of_time_says_of_what",
    ),
    "the job is `Running` and gets no further": (
        "e2e/test_progress.py::test_a_job_that_hangs_is_restarted_as_often_as_it_may",
    ),
    "the job goes on, and a condition `SpecInvalid`, `NotAllocatable`, `ReportRejected`, "
    "`NoSignal` or `ReconcileFailed` is True": (
        "e2e/test_uninstall.py"
        "::test_the_crd_and_running_jobs_outlive_the_release_which_adopts_them_again",
        "e2e/test_progress.py::test_a_job_that_hangs_is_restarted_as_often_as_it_may",
        # What only a mistake of ours could bring about is shown where one can be made.
        "unit/operator/test_scheduler.py::test_a_job_that_the_policy_fails_on_waits_alone_with_the_reason",
        "unit/operator/test_reconciler.py"
        "::test_a_defect_is_a_condition_until_the_next_successful_reconcile",
    ),
    "creating a job fails with `failed calling webhook`": (
        "e2e/test_webhook_outage.py::test_an_outage_of_the_webhook",
    ),
    "the local cluster does not come up": (
        "integration/cluster/test_lifecycle.py::test_up_restarts_what_was_killed_and_keeps_the_objects",
    ),
}
"""The first column of a row, and the tests, by file and name."""
