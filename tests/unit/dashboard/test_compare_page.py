"""The page that compares jobs, over what the cluster and a history answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from di_api.field_error import mapping
from tests.fakes.api_server import StandIn
from tests.fakes.history import Service, answering
from tests.unit.cli.conftest import JOBS, job
from tests.unit.dashboard.conftest import Page
from tests.waiting import wait_until

Object = dict[str, Any]
START = datetime(2026, 3, 1, 9, tzinfo=UTC)
SEEDS = ("ppo-1", "ppo-2", "ppo-3")
ALL = "&".join(f"job=rl/{name}" for name in (*SEEDS, "sac"))


@pytest.fixture
def service() -> Iterator[Service]:
    """A history of three seeds of one program and of another program, all deleted."""
    with answering() as found:
        for seed, name in enumerate(SEEDS, 1):
            keep(found, name, [0.0, 10.0 * seed, 20.0 * seed], seed=seed)
        keep(found, "sac", [5.0, 6.0, -7.5], seed=1, image="sac")
        yield found


def keep(
    service: Service,
    name: str,
    values: list[float],
    *,
    seed: int,
    image: str = "ppo",
    metric: str = "ep_rew_mean",
    namespace: str = "rl",
) -> None:
    """Put a deleted job into the history."""
    uid = f"uid-{name}"
    path = f"/v1/jobs/{namespace}/{name}"
    service.answers[path] = {
        "job": {"name": name, "uid": uid, "deleted": "2026-03-01T10:00:00Z"},
        "revisions": [{"number": 1}, {"number": 2}],
        "placements": [{"pod": f"{name}-0", "node": f"n{seed}", "since": "2026-03-01T09:00:00Z"}],
    }
    service.answers[f"{path}/series"] = {
        "samples": [
            {
                "at": (START + timedelta(minutes=number)).isoformat(),
                "values": {"step": number * 10, metric: value, "loss": 1.0},
            }
            for number, value in enumerate(values)
        ]
    }
    task = {"type": "learner", "image": image, "args": ["t.py", "--seed", str(seed)]}
    service.answers[f"{path}/revisions/2"] = {"spec": {"tasks": [task]}}


def plot(page: Page, path: str) -> Object:
    """Return what the script of the page draws."""
    found = re.search(r'id="plot-data">(.*?)</script>', page.get(path).text, re.DOTALL)
    assert found is not None
    shown: Object = json.loads(found[1])
    return shown


@pytest.mark.proves("dashboard.md#comparing-jobs")
@pytest.mark.usefixtures("service")
def test_seeds_are_one_line_with_a_band_beside_another_program(asking: Page) -> None:
    told = plot(asking, f"/compare?{ALL}")
    assert (told["title"], told["axis"], told["log"]) == ("return", "step", False)
    seeds, other = told["lines"]
    assert (seeds["label"], other["label"]) == ("ppo-1 +2", "sac")
    assert (seeds["number"], other["number"]) == (0, 1)
    # Means of 0, 0, 0 at step 0 and of 20, 40, 60 at step 20; of three seeds none is left out.
    assert seeds["points"][0] == [0, 0]
    assert seeds["points"][-1] == [20, 40]
    assert (seeds["low"][-1], seeds["high"][-1]) == ([20, 20], [20, 60])
    assert other["points"] == [[0, 5], [10, 6], [20, -7.5]]
    assert other["low"] == other["high"] == []


@pytest.mark.proves("dashboard.md#comparing-jobs")
@pytest.mark.usefixtures("service")
def test_results_and_differences_are_those_of_di_compare(asking: Page) -> None:
    text = asking.get(f"/compare?{ALL}").text
    results = text.partition('id="results"')[2].partition("</table>")[0]
    assert ">20..60<" in results
    titles = re.findall(r"<th scope=\"col\"[^>]*>([^<]+)", results)
    assert titles[:2] + titles[-3:] == ["Job", "Values", "Seeds", "IQM", "95% interval"]
    assert 'href="/jobs/rl/ppo-2"' in results
    different = text.partition('id="differences"')[2].partition("</table>")[0]
    assert "tasks[learner].image" in different
    assert "<code>sac</code>" in different
    assert ">ppo-2<" in different
    # Of a job out of four the others are left.
    assert "job=rl/ppo-1&amp;job=rl/ppo-3&amp;job=rl/sac" in results


@pytest.mark.proves("dashboard.md#comparing-jobs")
@pytest.mark.usefixtures("service")
def test_the_address_chooses_axis_smoothing_and_single_jobs(asking: Page) -> None:
    query = f"/compare?{ALL}&metric=EP-rew_mean&by=time&smooth=0.5&log=1&each=1"
    told = plot(asking, query)
    assert (told["axis"], told["log"]) == ("time", True)
    assert [each["label"] for each in told["lines"]] == [*SEEDS, "sac"]
    first = told["lines"][0]["points"]
    assert [place for place, _ in first] == [0, 60, 120]
    # A quarter of 0, then 10 and 20 with growing weights.
    assert first[1][1] == pytest.approx(10 * 0.5 / 0.75)
    text = asking.get(query).text
    assert 'name="each" id="each" value="1" checked' in text
    assert 'smooth=0.5&amp;log=1&amp;each=1"' in text.partition('id="compare-csv"')[2][:400]


@pytest.mark.proves("dashboard.md#comparing-jobs")
@pytest.mark.usefixtures("service")
def test_csv_has_a_column_for_each_job(asking: Page) -> None:
    answer = asking.get(f"/compare.csv?{ALL}")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert answer.text.splitlines() == [
        "step,ppo-1,ppo-2,ppo-3,sac",
        "0,0,0,0,5",
        "10,10,20,30,6",
        "20,20,40,60,-7.5",
    ]


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_jobs_of_several_namespaces_have_them_in_their_names(
    asking: Page, service: Service
) -> None:
    keep(service, "ppo-1", [1.0, 2.0], seed=1, namespace="other")
    text = asking.get("/compare.csv?job=rl/ppo-1&job=other/ppo-1").text
    assert text.splitlines()[0] == "step,rl/ppo-1,other/ppo-1"
    asking.get("/compare.csv?job=rl/ppo-1/uid-1&job=rl/ppo-1")
    asked = {path for path, _ in service.asked}
    assert {"/v1/jobs/other/ppo-1/series", "/v1/jobs/rl/ppo-1/series?uid=uid-1"} <= asked


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_a_plot_of_many_jobs_has_fewer_reports_of_each(asking: Page, service: Service) -> None:
    names = [f"run-{number}" for number in range(20)]
    for name in names:
        keep(service, name, [1.0, 2.0], seed=1)
    asking.get("/compare?" + "&".join(f"job=rl/{name}" for name in names[:5]))
    few = {path for path, _ in service.asked if "/series" in path}
    asking.get("/compare?" + "&".join(f"job=rl/{name}" for name in names))
    many = {path for path, _ in service.asked if "/series" in path} - few
    assert not any("limit" in path for path in few)
    assert many == {f"/v1/jobs/rl/{name}/series?limit=350" for name in names}


def test_a_job_of_the_cluster_is_compared_by_what_the_page_has_seen(
    page: Page, world: StandIn
) -> None:
    page.enter()
    for step, minute in ((10, 1), (20, 2)):
        for name in ("half", "cartpole"):
            # Later than when the page has first seen the jobs, by any clock.
            at = f"2100-03-01T09:0{minute}:00Z"
            report = {"step": step, "reward": step / 2, "reportedAt": at}
            world.put(f"{JOBS}/{name}", job(name, "Running", progress=report, profilings=report))

        def is_seen(step: int = step) -> bool:
            cache = page.served.cluster_cache
            found = (cache.job("rl", name) or {} for name in ("half", "cartpole"))
            status = (mapping(each.get("status")) for each in found)
            return all(mapping(each.get("progress")).get("step") == step for each in status)

        wait_until(is_seen, what="the watch to bring the reports")
    told = plot(page, "/compare?job=rl/half&job=rl/cartpole&metric=reward")
    assert [each["points"] for each in told["lines"]] == [[[10, 5], [20, 10]]] * 2
    text = page.get("/compare?job=rl/half&job=rl/cartpole&metric=reward").text
    assert "curves begin when this page first saw them: half cartpole." in text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("job=rl/a", 400, "Choose 2 to 20 jobs to compare, not 1: tick them in the list of jobs"),
        ("job=rl/a&job=rl/a", 400, "not 1"),
        ("&".join(f"job=rl/a{number}" for number in range(21)), 400, "not 21"),
        ("job=a&job=rl/b", 400, "job=a is not NAMESPACE/NAME"),
        ("job=rl/&job=rl/b", 400, "job=rl/ is not NAMESPACE/NAME"),
        ("job=rl/a&job=rl/%3Cb%3E", 404, "There is no job rl/&lt;b&gt; (any more)."),
    ],
)
def test_a_wrong_choice_is_refused_with_what_to_do(
    page: Page, query: str, status: int, words: str
) -> None:
    page.enter()
    for path in ("/compare", "/compare.csv"):
        answer = page.get(f"{path}?{query}")
        assert answer.status_code == status
        assert words in answer.text


def test_without_a_choice_the_list_is_shown_with_what_to_do(page: Page) -> None:
    page.enter()
    answer = page.get("/compare")
    assert (answer.status_code, answer.url) == (200, f"{page.root}/")
    assert "Tick 2 to 20 jobs, then press Compare." in answer.text
    assert page.get("/compare.csv").status_code == 400


def test_what_is_missing_is_named_and_the_rest_compared(asking: Page, service: Service) -> None:
    keep(service, "other", [1.0], seed=1, metric="</script>")
    del service.answers["/v1/jobs/rl/ppo-2/revisions/2"]
    text = asking.get("/compare?job=rl/ppo-1&job=rl/ppo-2&job=rl/other&job=rl/none").text
    assert "There is no job rl/none (any more)." in text
    assert "other has not reported return." in text
    assert "The manifest of ppo-2 is not known" in text
    assert "</script></option>" not in text


def test_another_metric_and_no_metric_at_all(asking: Page, service: Service) -> None:
    del service.answers["/v1/jobs/rl/ppo-2/series"]
    path = "/compare?job=rl/ppo-1&job=rl/ppo-2&metric=<b>&by=x&smooth=nan"
    told = plot(asking, path)
    assert (told["lines"], told["axis"]) == ([], "step")
    assert "ppo-1 has not reported &lt;b&gt;." in asking.get(path).text
    options = re.findall(r"<option[^>]*>([^<]*)", asking.get(path).text)
    assert options[:4] == ["return", "ep_rew_mean", "loss", "&lt;b&gt;"]


def test_a_history_that_refuses_leaves_what_the_cluster_has(asking: Page, service: Service) -> None:
    service.status = 503
    text = asking.get("/compare?job=rl/grpo-7b&job=rl/half&job=rl/ppo-1").text
    assert "The history is away" in text
    assert "grpo-7b" in text
    assert "rl/ppo-1 is not in the cluster, and its history is not known." in text
    assert "(any more)" not in text
    assert asking.get("/compare?job=rl/ppo-1&job=rl/ppo-2").status_code == 503


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_without_steps_the_axis_is_time_unless_steps_are_chosen(
    asking: Page, service: Service
) -> None:
    for name in SEEDS:
        series: Any = service.answers[f"/v1/jobs/rl/{name}/series"]
        for sample in series["samples"]:
            del sample["values"]["step"]
    path = "/compare?job=rl/ppo-1&job=rl/ppo-2"
    assert plot(asking, path)["axis"] == "time"
    assert plot(asking, f"{path}&job=rl/sac")["axis"] == "step"
    told = plot(asking, f"{path}&by=step")
    assert (told["axis"], told["lines"]) == ("step", [])
    words = "ppo-1 has values without a step; by time has all of them."
    assert words in asking.get(f"{path}&by=step").text


@pytest.mark.proves("dashboard.md#comparing-jobs")
@pytest.mark.usefixtures("service")
def test_ended_jobs_alone_are_not_followed(asking: Page) -> None:
    ended, with_one = "/compare?job=rl/ppo-1&job=rl/ppo-2", "&job=rl/grpo-7b"
    assert 'data-topic=""' in asking.get(ended).text
    assert 'data-topic="compare"' in asking.get(ended + with_one).text


def test_lists_offer_jobs_to_compare(asking: Page, service: Service) -> None:
    ended = {"name": "old", "uid": "u1", "phase": "Failed", "deleted": "2026-03-01T10:00:00Z"}
    service.answers["/v1/jobs"] = {"jobs": [ended]}
    for path, value in (("/", "rl/half"), ("/ended", "rl/old/u1")):
        text = asking.get(path).text
        assert f'form="chosen" name="job" value="{value}"' in text
        assert '<form class="chosen" id="chosen" action="/compare">' in text
