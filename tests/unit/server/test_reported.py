"""What a job has reported, as those who scale it by that read it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from di_api.profilings import read_profilings
from tests.unit.server.fakes import Harness

PATH = "/v2alpha1/rl.cartpole/profilings"
PAGE = Path(__file__).parents[3] / "docs/teams-autoscalers.md"


def test_a_report_is_told_as_it_was_given(harness: Harness) -> None:
    assert harness.client.get(PATH).get_json()["data"] == {}
    reported = {"learnerWaitFrac": 0.6, "queueDepth": 2, "own": [1]}
    assert harness.client.post(PATH, json=reported).status_code == 200
    answer = harness.client.get(PATH).get_json()
    assert answer["success"]
    assert answer["data"].items() >= reported.items()


def test_the_value_that_the_page_has_keda_read_is_there(harness: Harness) -> None:
    blocks = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)]
    ((trigger,),) = [block["triggers"] for block in blocks if "triggers" in block]
    location = trigger["metadata"]["valueLocation"]
    first, key = location.split(".")
    known, wrong = read_profilings({key: 0.6})
    assert (list(known), wrong) == (["learner_wait_frac"], [])
    harness.client.post(PATH, json={key: 0.6})
    assert harness.client.get(PATH).get_json()[first][key] == 0.6
    assert trigger["metadata"]["url"].endswith("/v2alpha1/team.cartpole/profilings")


def test_a_job_that_is_not_there_has_reported_nothing(harness: Harness) -> None:
    assert harness.client.get(PATH.replace("cartpole", "absent")).status_code == 404


def test_what_somebody_wrote_into_the_status_is_borne(harness: Harness) -> None:
    harness.job()["status"] = {"phase": "Running", "profilings": [1]}
    assert harness.client.get(PATH).get_json()["data"] == {}
