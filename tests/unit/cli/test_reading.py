"""Commands that show something."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from di_cli import output
from di_cli.exit_codes import ExitCode
from tests.unit.cli.conftest import EVENTS, JOBS, PODS, Di, condition, job, terminated


def test_a_list_shows_each_job_in_a_row(di: Di) -> None:
    di.job()
    conditions = [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]
    di.job("broken", "Failed", conditions=conditions, progress={}, profilings={})
    said = di("list")
    assert said.lines == [
        "NAME      PHASE    PROGRESS       READY  WAITING  RESTARTS  GPUS  AGE  ENDS",
        "broken    Failed                  0/3             1         0     3h   di why broken",
        "cartpole  Running  ▇▇▇▇▇▁▁▁  62%  3/3    8%       1         4     3h",
    ]
    assert (said.code, said.err) == (0, "")


def test_a_wide_list_has_times_and_reasons(di: Di) -> None:
    di.job(reschedules=2)
    header, row = di("list", "-o", "wide", "-A").lines
    assert header.split()[:2] == ["NAMESPACE", "NAME"]
    assert row.split()[-3:] == ["2026-03-01", "09:00:00", "JobRunning"]
    assert row.startswith("rl         cartpole")


@pytest.mark.proves("allocation.md#what-a-job-reports/trackingurl", "tracking.md#a-link-to-the-run")
def test_the_page_of_a_run_in_a_tracker_is_shown(di: Di) -> None:
    url = "https://wandb.example.org/team/run/3"
    di.job(profilings={"trackingURL": url})
    assert url in di("list", "-o", "wide").lines[1].split()
    assert ["Tracking", url] in [line.split() for line in di("describe", "cartpole").lines]
    assert [line.split() for line in di("why", "cartpole").lines].count(["tracking", url]) == 1


def test_a_report_that_is_no_link_is_shown_nowhere(di: Di) -> None:
    di.job(profilings={"trackingURL": "javascript:alert(1)"})
    assert "javascript" not in di("list", "-o", "wide").out + di("why", "cartpole").out


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_are_the_objects_themselves(di: Di, form: str, parse: Any) -> None:
    di.job()
    whole, one = parse(di("list", "-o", form).out), parse(di("get", "cartpole", "-o", form).out)
    assert whole["kind"] == "List"
    assert whole["items"] == [one]
    assert one["status"]["phase"] == "Running"
    assert "managedFields" not in one["metadata"]
    assert di("list", "-o", "name").lines == ["dijob/cartpole"]


def test_get_shows_several_jobs_by_their_names(di: Di) -> None:
    for name in ("one", "two", "three"):
        di.job(name)
    assert [line.split()[0] for line in di("get", "two", "one").lines] == ["NAME", "two", "one"]
    assert di("get", "one", "three", "-o", "name").lines == ["dijob/one", "dijob/three"]
    assert json.loads(di("get", "one", "two", "-o", "json").out)["kind"] == "List"
    assert di("get", "one", "two", "-w").code == ExitCode.USAGE


def test_get_shows_the_jobs_there_are_and_names_the_missing_ones(di: Di) -> None:
    di.job("one")
    said = di("get", "one", "nothing", "neither")
    assert said.lines[1].startswith("one")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines()[0] == (
        "error: DIJob rl/nothing: there is none of that name; "
        "DIJob rl/neither: there is none of that name"
    )


def _many(di: Di) -> None:
    """Jobs of two owners that differ in all that a list is sorted by."""
    for place, (name, phase, owner) in enumerate(
        (("one", "Running", "ann"), ("two", "Failed", "bob"), ("three", "Running", "bob"))
    ):
        began = {"startTime": f"2026-03-01T{12 - place}:00:00Z"} if place else {}
        found = job(name, phase, restarts=place, progress={"step": place, "totalSteps": 9}, **began)
        found["metadata"]["labels"] = {"owner": owner}
        found["metadata"]["creationTimestamp"] = f"2026-03-01T0{9 - place}:00:00Z"
        di.world.put(f"{JOBS}/{name}", found)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--phase", "running"], ["one", "three"]),
        (["--phase", "Failed,Pending"], ["two"]),
        (["--phase", "Failed", "--phase", "Running", "--limit", "2"], ["one", "three"]),
        (["--owner", "bob"], ["three", "two"]),
        (["--longer-than", "90m"], ["three"]),
        (["--longer-than", "1h"], ["three", "two"]),
        (["--sort-by", "age"], ["one", "two", "three"]),
        (["--sort-by", "duration"], ["three", "two", "one"]),
        (["--sort-by", "restarts", "--limit", "1"], ["three"]),
        (["--sort-by", "progress"], ["three", "two", "one"]),
        (["--sort-by", "owner"], ["one", "three", "two"]),
        (["--sort-by", "phase"], ["one", "three", "two"]),
        (["--sort-by", "gpus"], ["one", "three", "two"]),
    ],
)
def test_a_list_is_filtered_and_sorted(di: Di, words: list[str], names: list[str]) -> None:
    _many(di)
    assert [line.split()[0] for line in di("list", *words).lines[1:]] == names
    said = di("list", *words, "-o", "name").lines
    assert said == [f"dijob/{name}" for name in names]


def test_a_list_without_a_match_is_not_called_an_empty_namespace(di: Di) -> None:
    _many(di)
    assert di("list", "--phase", "Pending").lines == [
        "none of the 3 jobs has the phase and the duration"
    ]
    assert di("list", "--owner", "eve").lines == [
        "no jobs in namespace rl have the labels owner=eve"
    ]


@pytest.mark.parametrize(
    "words", [["--phase", "Ended"], ["--limit", "0"], ["--sort-by", "x"], ["-w", "--limit", "1"]]
)
def test_a_wrong_filter_of_a_list_is_refused(di: Di, words: list[str]) -> None:
    assert di("list", *words).code == ExitCode.USAGE


def test_an_empty_list_names_the_next_command(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    assert di("list").lines == ["no jobs in namespace rl"]
    assert di("list", "-n", "other").lines == ["no jobs in namespace other"]
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert "di submit job.yaml" in di("list").err


def test_the_next_command_is_shown_on_a_terminal_only(
    di: Di, monkeypatch: pytest.MonkeyPatch
) -> None:
    di.job()
    assert di("get", "cartpole").err == ""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    said = di("get", "cartpole")
    assert said.err == "next: di describe cartpole   di logs cartpole\n"
    assert "\x1b[32mRunning" in said.out


def test_a_description_has_tasks_pods_history_and_events(di: Di) -> None:
    di.job()
    di.pod("cartpole", "collector", 0, 1)
    waiting = [{"name": "c", "restartCount": 2, "state": {"waiting": {"reason": "ErrImagePull"}}}]
    di.pod("cartpole", "learner", 0, 0, containerStatuses=waiting)
    _event(di, "JobRunning", "all pods are ready")
    text = di("describe", "cartpole").out
    for line in (
        "Ready     3 of 3 pods\n",
        "learner    learner    1                 1 Running  4          example/learner",
        "collector  collector  2         1..4    2 Running  0          example/collector",
        "0     cartpole-learner-0    learner    ErrImagePull  2         4     gpu-1  3h",
        "Running    yes  2026-03-01 11:30:00  30m  JobRunning  3 of 3 pods ready",
    ):
        assert line in text, text
    assert text.index("cartpole-learner-0") < text.index("cartpole-collector-0")


def test_the_present_condition_is_the_last_of_its_second(di: Di) -> None:
    over = condition("Starting", "JobStarting") | {"status": "False"}
    di.job(conditions=[over, condition("Running", "JobRunning")])
    text = di("describe", "cartpole").out
    assert text.index("\nRunning ") < text.index("\nStarting ")


def test_a_description_has_the_data_shards(di: Di) -> None:
    lease = "2026-03-01T12:00:50Z - 12-14"
    shards = {"done": 12, "total": 30, "epochs": 3, "epoch": 1, "leases": {"w": lease}}
    di.job(shards={"prompts": {**shards, "leaseSeconds": 60}})
    line = "Shards prompts  12 of 30 done, epoch 2 of 3, 3 with 1 worker\n"
    text = di("describe", "cartpole").out
    assert line in text, text


@pytest.mark.proves("sdk.md#data-shards")
def test_a_shown_job_has_a_line_for_each_data_set(di: Di) -> None:
    lease = "2026-03-01T12:00:10Z - 12-14"
    counts = {"total": 30, "epochs": 3, "leaseSeconds": 60}
    prompts = {**counts, "done": 12, "epoch": 1, "leases": {"w": lease}}
    di.job(shards={"prompts": prompts, "evaluation": {**counts, "done": 30, "epoch": 2}})
    assert di("get", "cartpole").lines[2:] == [
        "shards evaluation: 30 of 30 done, epoch 3 of 3",
        "shards prompts: 12 of 30 done, epoch 2 of 3, 3 with 1 worker; slow: w",
    ]


def test_events_of_job_and_pods_are_sorted_by_time(di: Di) -> None:
    di.job()
    _event(di, "Pulled", "image is there", name="cartpole-learner-0", kind="Pod", at="11:59:00")
    _event(di, "JobRunning", "all pods are ready", at="11:58:00")
    _event(di, "Pulled", "of another job", name="pong-learner-0", kind="Pod")
    assert di("events", "cartpole").lines == [
        "AGE  TYPE    REASON      OBJECT                  COUNT  MESSAGE",
        "2m   Normal  JobRunning  dijob/cartpole          1      all pods are ready",
        "1m   Normal  Pulled      pod/cartpole-learner-0  1      image is there",
    ]


def test_no_events_and_no_job_are_different_messages(di: Di) -> None:
    di.job()
    assert di("events", "cartpole").lines == [
        "no events of cartpole: the API server keeps them for an hour"
    ]
    assert di("events", "nothing").code == ExitCode.NOT_FOUND


def test_why_shows_cause_evidence_and_remedy(di: Di) -> None:
    message = "1 pod failed; pod cartpole-learner-0 failed first: exit code 1"
    conditions = [condition("Failed", "JobFailed", message, at="11:19:00")]
    di.job(phase="Failed", conditions=conditions, restarts=3)
    name = di.pod("cartpole", "learner", 0, 0, **terminated(1, "Error", "11:19:00"))
    di.world.logs[name] = ["2026-03-01T11:18:59Z Traceback", "2026-03-01T11:19:00Z KeyError: 'x'"]
    assert di("why", "cartpole").lines == [
        "cartpole failed after it was restarted 3 times: the program of cartpole-learner-0 failed "
        "(exit code 1): KeyError: 'x'",
        "  first     cartpole-learner-0/di-container, exit code 1, on node gpu-1 "
        "(11:19:00, 41m ago)",
        "  operator  JobFailed: 1 pod failed; pod cartpole-learner-0 failed first: exit code 1 "
        "(11:19:00, 41m ago)",
        "  restarts  3 (backoffLimit 3)",
        "  last log  Traceback",
        "            KeyError: 'x'",
        "  remedy    di logs cartpole --rank 0: correct what ended it",
    ]
    assert json.loads(di("why", "cartpole", "--json").out)["cause"] == "BackoffLimit"
    di.world.logs[name] = ["unable to retrieve container logs for containerd://8aae"]
    assert "last log" not in di("why", "cartpole").out


def test_why_reads_the_events_of_a_pods_claims(di: Di) -> None:
    message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    di.job(phase="Starting", conditions=[condition("Starting", "VolumeNotBound", message)])
    waits = {"type": "PodScheduled", "status": "False", "message": message}
    name = di.pod("cartpole", "learner", 0, 0, phase="Pending", conditions=[waits])
    pod = di.world.objects[f"{PODS}/{name}"]
    pod["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pod["spec"].pop("nodeName", None)
    for claim, missing in (("data", "fast-ssd"), ("of-another-job", "slow")):
        event = {
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": f'storageclass.storage.k8s.io "{missing}" not found',
            "involvedObject": {"kind": "PersistentVolumeClaim", "name": claim},
        }
        di.world.put(f"{EVENTS}/{claim}", {"metadata": {"name": claim}, **event})
    assert (
        di("why", "cartpole")
        .lines[0]
        .endswith("claim data waits for storage class fast-ssd, which does not exist")
    )


def test_the_limit_range_that_refuses_pods_is_named(di: Di) -> None:
    message = "minimum cpu usage per Container is 100m, but request is 10m"
    path = "/api/v1/namespaces/rl/limitranges"
    found = di.job(phase="Pending")
    found["status"]["conditions"] = [
        condition("Pending", "CreateForbidden", f"is forbidden: {message}")
    ]
    di.world.put(f"{JOBS}/cartpole", found)
    assert "a LimitRange of namespace rl" in di("why", "cartpole").lines[0]
    limits = [{"type": "Container", "min": {"cpu": "100m"}}]
    di.world.put(f"{path}/least", {"metadata": {"name": "least"}, "spec": {"limits": limits}})
    assert "LimitRange least of namespace rl" in di("why", "cartpole").lines[0]
    di.world.refusals["GET", path] = {"code": 403, "reason": "Forbidden"}
    assert "a LimitRange of namespace rl" in di("why", "cartpole").lines[0]


def test_why_of_an_unknown_name_suggests_the_nearest(di: Di) -> None:
    di.job()
    said = di("why", "cartpol")
    assert said.code == ExitCode.NOT_FOUND
    assert said.err.splitlines() == [
        "error: there is no job cartpol in namespace rl",
        "  jobs here: cartpole",
        "  try: did you mean cartpole?",
    ]


def test_why_works_without_rights_to_pods_and_events(di: Di) -> None:
    di.job()
    forbidden = {"code": 403, "reason": "Forbidden", "message": "no"}
    for path in (EVENTS, "/api/v1/nodes", "/api/v1/namespaces/rl/pods"):
        di.world.refusals["GET", path] = forbidden
    assert di("why", "cartpole").lines[0] == (
        "cartpole runs by its status; its pods cannot be read, so no more is known"
    )


def test_top_of_a_job_without_pods_reports_that(di: Di) -> None:
    di.job(phase="Pending")
    said = di("top", "cartpole")
    assert (said.code, said.lines) == (0, ["dijob/cartpole has no pods"])
    assert di("top").lines == ["no job in rl has pods"]
    assert di("top", "-A").lines == ["no job in any namespace has pods"]
    assert di("top", "cartpole", "-A").code == ExitCode.USAGE


def test_top_shows_use_beside_requests(di: Di) -> None:
    di.job()
    name = di.pod("cartpole", "learner", 0, 0)
    metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/rl/pods"
    usage = {"cpu": "1500m", "memory": "512Mi"}
    labels = {"diengine/job": "cartpole"}
    di.world.put(
        f"{metrics}/{name}",
        {
            "metadata": {"name": name, "namespace": "rl", "labels": labels},
            "containers": [{"usage": usage}],
        },
    )
    said = di("top", "cartpole")
    assert said.lines == [
        "POD                 TASK     CPU   REQUEST  MEMORY  REQUEST  GPUS  USED",
        "cartpole-learner-0  learner  1.50           512Mi            4",
    ]
    assert said.err == ""
    di.pod("cartpole", "learner", 1, 1)
    gpus = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/rl/pods/*/DCGM_FI_DEV_GPU_UTIL"
    measured = {"describedObject": {"name": name}, "value": "87"}
    di.world.put(gpus, {"metadata": {"name": "all"}, "items": [measured]})
    said = di("top", "cartpole")
    assert said.lines == [
        "POD                 TASK     CPU   REQUEST  MEMORY  REQUEST  GPUS  USED",
        "cartpole-learner-0  learner  1.50           512Mi            4     87%",
        "cartpole-learner-1  learner                                  4",
        "2 pods, 1 measured  learner  1.50           512Mi            8     87%",
    ]
    assert said.err == (
        "not measured yet: cartpole-learner-1; metrics-server needs two measurements of a "
        "container\n"
    )
    assert di("top").lines == [
        "JOB       PODS           CPU   REQUEST  MEMORY  REQUEST  GPUS  USED",
        "cartpole  2, 1 measured  1.50           512Mi            8     87%",
    ]
    assert di("top", "-A").lines[1].split()[:2] == ["rl", "cartpole"]
    di.world.refusals["GET", metrics] = {"code": 404, "message": "not found"}
    assert di("top", "cartpole").err.splitlines()[0] == (
        "error: this cluster does not measure the resource use of pods"
    )
    di.world.refusals["GET", metrics] = {"code": 503, "message": "service unavailable"}
    assert di("top", "cartpole").err.splitlines() == [
        "error: metrics-server does not respond",
        "  service unavailable",
        "  try: kubectl describe apiservice v1beta1.metrics.k8s.io",
    ]


def test_a_watched_list_shows_each_change_once(di: Di, monkeypatch: pytest.MonkeyPatch) -> None:
    phases = ("Running", "Running", "Succeeded")
    monkeypatch.setattr(
        "di_cli.commands.observe.listing.follow",
        lambda *_, **__: iter(
            [*({("rl", "cartpole"): job("cartpole", phase)} for phase in phases), {}]
        ),
    )
    lines = di("list", "--watch").lines
    assert [line.split()[:2] for line in lines] == [
        ["NAME", "PHASE"],
        ["cartpole", "Running"],
        ["cartpole", "Succeeded"],
        ["cartpole", "was"],
    ]


def _event(
    di: Di,
    reason: str,
    message: str,
    *,
    name: str = "cartpole",
    kind: str = "DIJob",
    at: str = "11:59:30",
) -> None:
    body = {
        **{"metadata": {"name": f"{reason}-{name}"}, "lastTimestamp": f"2026-03-01T{at}Z"},
        **{"type": "Normal", "reason": reason, "message": message},
        "involvedObject": {"kind": kind, "name": name},
    }
    di.world.put(f"{EVENTS}/{reason}-{name}", body)


def test_the_fake_api_server_uses_the_products_paths() -> None:
    from di_kube.resources import DIJOBS  # noqa: PLC0415  # of this test alone

    assert DIJOBS.path("rl") == JOBS
