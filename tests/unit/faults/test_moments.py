"""How the requests of a component are named and counted."""

from __future__ import annotations

import orjson

from tools.faults.moments import Counts

PODS = "/api/v1/namespaces/ns/pods"
BODY = orjson.dumps({"metadata": {"name": "a-work-0"}})


def test_a_dry_run_is_no_write_and_counts_as_no_create() -> None:
    counts = Counts()
    tried = counts.request("POST", PODS, {"dryRun": "All"}, BODY)
    made = counts.request("POST", PODS, {}, BODY)
    assert (str(tried), tried.is_write) == ("dry-run-pods-a-work-0#1", False)
    assert (str(made), made.is_write) == ("create-pods-a-work-0#1", True)
