"""The pages in a real browser, over a stand-in of the API server: how they read and behave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import Serving, serving
from tests.browser import notebook, past, scene
from tests.browser.chromium import NARROW, WIDE, Browser, browser
from tests.browser.screenshots import PICTURES, scenery, take
from tests.fakes.api_server import StandIn
from tests.unit.cli.conftest import JOBS, job
from tests.waiting import wait_until

_LOGS = f"/jobs/rl/{scene.SHOWN}/logs"
_TWO = f"{_LOGS}?pod={scene.SHOWN}-learner-0&pod={scene.SHOWN}-collector-1"
VIEWS = (
    "/",
    f"/jobs/rl/{scene.SHOWN}",
    f"/jobs/rl/{scene.FAILED}",
    "/cluster",
    _TWO,
    f"/jobs/rl/{scene.SHOWN}/yaml",
    f"/jobs/rl/{scene.SHOWN}/scale",
    f"/jobs/rl/{scene.SHOWN}/limits",
    f"/jobs/rl/{scene.SHOWN}/delete",
    f"/jobs/rl/{past.GONE}?uid={past.GONE_UID}",
    "/ended",
    "/usage?by=user&days=30",
    f"/compare?{past.COMPARED}",
    f"/jobs/rl/{scene.SHOWN}/revisions/2",
    f"/jobs/rl/{past.GONE}/ended-logs?uid={past.GONE_UID}",
    "/jobs/rl/nobody",
)
_LIVE = (*VIEWS[:4], f"/jobs/rl/{past.GONE}?uid={past.GONE_UID}")
_MANY = 10_000


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StandIn, Serving]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        with scenery(tmp_path_factory.mktemp("scene")) as found:
            yield found
    time.tzset()


@pytest.fixture
def world(scenes: tuple[StandIn, Serving], tab: Browser) -> Iterator[StandIn]:
    """The scene, whose page is open."""
    found, served = scenes
    tab.size(WIDE)
    tab.dark(False)
    tab.enter(served.url)
    tab.until_live()
    tab.complaints()
    yield found
    assert tab.complaints() == []


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("path", VIEWS[:-1])
def test_a_view_has_no_serious_finding_and_is_no_wider_than_its_window(
    tab: Browser, path: str
) -> None:
    tab.open(path, live=path in _LIVE)
    for dark in (False, True):
        tab.dark(dark)
        assert tab.axe() == []
    for size in (NARROW, WIDE):
        tab.size(size)
        assert tab.overflow() == 0, size


@pytest.mark.usefixtures("world")
@pytest.mark.proves("dashboard.md#usage")
def test_gpu_hours_are_grouped_by_the_property_that_is_chosen(tab: Browser) -> None:
    tab.open("/usage?by=job&days=7")
    tab.driver.find_element(By.LINK_TEXT, "by user").click()
    wait_until(lambda: tab.texts("#usage th")[0] == "User", what="the table of users")
    assert tab.texts('nav [aria-current="true"]')[-2:] == ["by user", "7 days"]
    first, *_, total = tab.texts("#usage tbody tr")
    assert first.split("\t")[:4] == ["ann", "41", "1,310.4", "81%"]
    assert total.split("\t")[:4] == ["total", "228", "2,984.2", "72%"]
    assert "waiting 31%" in tab.texts("#usage tbody tr")[1]


def test_what_is_not_there_is_said_in_the_same_form(world: StandIn, tab: Browser) -> None:
    tab.open("/jobs/rl/nobody", live=False)
    assert "There is no job nobody" in tab.text("main")
    assert tab.axe() == []
    # That it is not there is what the browser complains of.
    assert all("404" in each for each in tab.complaints())


def test_colours_of_logs_are_colours_and_markup_stays_text(world: StandIn, tab: Browser) -> None:
    pod = f"{scene.SHOWN}-learner-0"
    kept = world.logs[pod]
    many = "\x1b[32mx" * 1000
    bad = "\x1b[1;31m<img src=x onerror=alert(1)>\x1b[0m then \x1b[38;5;31mplain\x1b[2K"
    lines = [f"2026-03-01T11:59:59.{n}Z {text}" for n, text in enumerate((bad, many))]
    world.logs[pod] = [*kept, *lines]
    try:
        tab.open(f"{_LOGS}?pod={pod}")
        found = "[...document.querySelectorAll('.log p')].slice(-2).map((p) => p.lastElementChild)"
        first, second = tab.run(f"return {found}.map((each) => each.innerText)")
        assert first == "<img src=x onerror=alert(1)> then plain"
        assert second == "x" * 1000
        parts = tab.run(f"return {found}.map((each) => each.childElementCount)")
        assert parts == [3, 201]
        assert tab.run(f"return {found}[0].firstElementChild.className") == "k31 bold"
        for dark in (False, True):
            tab.dark(dark)
            assert tab.axe() == []
    finally:
        world.logs[pod] = kept


@pytest.mark.usefixtures("world")
def test_marks_of_one_moment_hide_no_part_of_each_other(tab: Browser) -> None:
    tab.open(f"/jobs/rl/{scene.SHOWN}")
    all_of = "return [...document.querySelectorAll('.axis .mark')]"
    widths = tab.run(f"{all_of}.map((each) => each.getBoundingClientRect().width)")
    assert widths
    assert max(widths) <= 6
    plain = f"{all_of}.filter((each) => !each.matches('.gap'))"
    assert set(tab.run(f"{plain}.map((each) => getComputedStyle(each).stroke)")) <= {"none"}


def test_a_long_line_of_a_traceback_fits_a_phone(world: StandIn, tab: Browser) -> None:
    names = [name for name in world.logs if name.startswith(scene.FAILED)]
    kept = {name: world.logs[name] for name in names}
    wide = "File " + "a/deep/folder/" * 20 + "learner.py"
    for name in names:
        world.logs[name] = [*kept[name], f"2026-03-01T11:59:59Z {wide}"]
    try:
        tab.size(NARROW)
        tab.open(f"/jobs/rl/{scene.FAILED}")
        assert tab.overflow() == 0
        script = (
            "return Math.max(...[...document.querySelectorAll('pre')].map((e) => e.offsetWidth))"
        )
        assert 0 < tab.run(script) <= NARROW[0]
    finally:
        world.logs.update(kept)


def test_jobs_are_sorted_by_the_header_of_a_column(world: StandIn, tab: Browser) -> None:
    tab.click("#jobs thead th:nth-child(8) a")
    wait_until(lambda: "sort=restarts" in tab.driver.current_url, what="the sorted page")
    tab.until_live()
    shown = [int(text) for text in tab.texts('#jobs td[data-label="Restarts"]')]
    assert len(shown) > 2
    assert shown == sorted(shown, reverse=True)
    assert tab.texts("#jobs th[aria-sort]") == ["Restarts"]


def test_rows_keep_their_places_under_the_pointer(world: StandIn, tab: Browser) -> None:
    first = tab.texts("[data-row] th a")
    ActionChains(tab.driver).move_to_element(tab.find("[data-row] th")).perform()
    body = job("newest", "Running", restarts=7)
    body["metadata"]["creationTimestamp"] = "2026-03-01T11:59:00Z"
    world.put(f"{JOBS}/newest", body)
    waits = world.objects[f"{JOBS}/sweep-12"]
    world.put(f"{JOBS}/sweep-12", {**waits, "status": {**waits["status"], "restarts": 42}})
    wait_until(lambda: tab.find("#held").is_displayed(), what="the page to say that more is there")
    assert tab.texts("[data-row] th a") == first
    tab.sees("#job-rl-sweep-12", "42")
    ActionChains(tab.driver).move_to_element(tab.find("h1")).perform()
    wait_until(lambda: tab.texts("[data-row] th a") == ["newest", *first], what="the new order")
    assert not tab.find("#held").is_displayed()
    world.put(f"{JOBS}/sweep-12", waits)
    world.remove(f"{JOBS}/newest")
    wait_until(lambda: tab.texts("[data-row] th a") == first, what="the old order")


def test_the_page_is_used_by_the_keyboard_alone(world: StandIn, tab: Browser) -> None:
    def press(*keys: str) -> None:
        ActionChains(tab.driver).send_keys(*keys).perform()

    press("/", *"owner=bob", Keys.ESCAPE)
    wait_until(lambda: tab.texts("[data-row] th a") == ["halfcheetah", "dqn-baseline"])
    assert tab.driver.current_url.endswith("?q=owner%3Dbob"), "it can be sent to a colleague"
    press("j", "j", "k", Keys.ENTER)
    tab.sees("h1", "halfcheetah")
    press("?")
    wait_until(lambda: tab.find("#keys").is_displayed())
    press(Keys.ESCAPE, "c")
    tab.sees("h1", "Cluster")
    press("g")
    tab.sees("h1", "Jobs")


def test_curves_are_on_the_axis_of_the_phases_and_told_under_the_pointer(
    world: StandIn, tab: Browser
) -> None:
    tab.open(f"/jobs/rl/{scene.SHOWN}")
    assert tab.texts(".curve figcaption")[0].startswith("Return")
    left, right = tab.run(
        """
        const axis = document.querySelector(".axis").getBoundingClientRect();
        const curve = document.querySelector("#plot-0 .u-over").getBoundingClientRect();
        return [axis.left - curve.left, axis.right - curve.right];
        """
    )
    assert (abs(left), abs(right)) < (1, 1)

    def told() -> bool:
        # A window that was just sized draws its curves anew, and then the pointer has to move.
        curve = tab.find("#plot-0 .u-over")
        for step in (-5, 5):
            ActionChains(tab.driver).move_to_element_with_offset(curve, step, 0).perform()
        return ":" in tab.text("#at-0")

    wait_until(told, what="the time and the value")
    assert tab.text("#at-1"), "all curves tell of the same moment"


def test_curves_are_chosen_smoothed_and_drawn_by_step_or_on_a_log_scale(
    world: StandIn, tab: Browser
) -> None:
    def drawn() -> list[str]:
        return [
            each.split("\n")[0].split(" ")[0]
            for each in tab.texts(".curve:not([hidden]) figcaption")
        ]

    def of_plot(name: str) -> str | None:
        return tab.find(".curve:not([hidden]) .plot").get_attribute(f"data-{name}")

    tab.open(f"/jobs/rl/{scene.SHOWN}")
    before, raw = drawn(), of_plot("last")
    assert "Return" in before
    tab.run("document.querySelector('#curve-choice details').open = true")
    tab.find('#curve-titles input[value="Return"]').click()
    wait_until(lambda: drawn() == before[1:], what="the curve to be gone")
    tab.open(f"/jobs/rl/{scene.SHOWN}")
    assert drawn() == before[1:], "this browser remembers what was chosen"
    tab.run("document.querySelector('#curve-choice details').open = true")
    tab.find('#curve-titles input[value="Return"]').click()
    wait_until(lambda: drawn() == before, what="the curve to be back")
    tab.run(
        "const smooth = document.getElementById('curve-smooth'); smooth.value = 0.9;"
        "smooth.dispatchEvent(new Event('input', { bubbles: true }))"
    )
    assert of_plot("last") != raw, "a smoothed curve ends beside its last value"
    tab.find("#curve-log").click()
    Select(tab.find("#curve-axis")).select_by_value("step")
    assert (of_plot("axis"), of_plot("scale")) == ("step", "log")
    assert tab.axe() == []
    for size in (NARROW, WIDE):
        tab.size(size)
        assert tab.overflow() == 0, size
    tab.run("localStorage.removeItem('di-curves')")


def test_a_gap_of_the_history_is_a_gap_of_the_curves_and_of_the_axis(
    world: StandIn, tab: Browser
) -> None:
    tab.open(f"/jobs/rl/{scene.SHOWN}")
    assert "nobody looked for 8m" in tab.run(
        "return document.querySelector('rect.hole title').textContent"
    )
    left, right = tab.run(
        """
        const hole = document.querySelector("rect.hole").getBoundingClientRect();
        return [hole.left, hole.right];
        """
    )
    # A column of pixels of the curve, in its middle and well before: only there is something drawn.
    drawn = """
        const canvas = document.querySelector("#plot-0 canvas");
        const box = canvas.getBoundingClientRect();
        const { width, height } = canvas;
        const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
        const at = (x) => {
          const column = Math.round((x - box.left) * width / box.width);
          return [...Array(height).keys()].filter((y) => {
            const [r, , b, a] = data.slice(4 * (y * width + column), 4 * (y * width + column) + 4);
            return a > 100 && b > r + 60;
          }).length;
        };
        return [at((arguments[0] + arguments[1]) / 2), at(arguments[0] - 40)];
    """
    inside, before = tab.run(drawn, left, right)
    assert (inside, before > 0) == (0, True)


def test_the_slider_goes_through_the_history_and_a_move_says_why(
    world: StandIn, tab: Browser
) -> None:
    tab.open("/cluster")
    tab.sees("#heat", "halfcheetah-collector-2")
    assert "ppo-hopper" not in tab.text("#then")
    then = int(datetime(2026, 3, 1, 8, tzinfo=UTC).timestamp())
    tab.run(
        """
        const at = document.getElementById("at");
        at.value = arguments[0];
        at.dispatchEvent(new Event("input", { bubbles: true }));
        """,
        then,
    )
    tab.sees("#then", "ppo-hopper 4")
    assert f"at={tab.find('#at').get_attribute('value')}" in tab.driver.current_url
    why = [mark.accessible_name for mark in tab.driver.find_elements("css selector", ".heat a")]
    assert any(
        f"{scene.SHOWN}-collector-1 moved from gpu-3 to gpu-0" in each and "OOMKilled" in each
        for each in why
    ), why
    tab.find(".heat a").send_keys(Keys.ENTER)
    tab.sees("h1", scene.SHOWN)


def test_logs_of_several_ranks_are_followed_side_by_side_and_searched(
    world: StandIn, tab: Browser
) -> None:
    tab.open(_TWO)
    for name, text in (("learner-0", "from rank nought"), ("collector-1", "from rank two")):
        world.logs[f"{scene.SHOWN}-{name}"].append(f"2026-03-01T11:59:59Z {text}")
    learner, collector = (
        f'[data-pod="{scene.SHOWN}-{name}"] .log' for name in ("learner-0", "collector-1")
    )
    tab.sees(learner, "from rank nought")
    tab.sees(collector, "from rank two")
    tab.find("#q").send_keys("RANK N")
    wait_until(lambda: tab.text("#hits") == "1 line")
    assert tab.text(learner).endswith("from rank nought")
    assert tab.text(collector) == ""


def test_without_scripts_the_tables_still_read(world: StandIn, tab: Browser) -> None:
    tab.scripts(False)
    try:
        tab.open("/?q=grpo", live=False)
        assert [each.text for each in tab.driver.find_elements("css selector", "tbody th a")] == [
            scene.SHOWN
        ]
        tab.open(f"/jobs/rl/{scene.FAILED}", live=False)
        assert "ran out of memory" in tab.find(".sentence").text
        tab.find("#do-delete").click()
        assert "cannot be taken back" in tab.find(".sentence").text
        tab.open(_TWO, live=False)
        assert "loss" in tab.find(".log").text
        tab.open("/cluster", live=False)
        assert "WaitingForNodes" in tab.find("#waits").text
    finally:
        tab.scripts(True)


def test_dark_is_chosen_once_for_all_pages(world: StandIn, tab: Browser) -> None:
    def ground() -> str:
        return str(tab.run("return getComputedStyle(document.body).backgroundColor"))

    light = ground()
    tab.click("#theme")
    dark = ground()
    assert dark != light
    tab.open("/cluster")
    assert ground() == dark
    tab.click("#theme")
    assert ground() == light
    tab.run("localStorage.clear()")


def test_a_page_that_nobody_sees_gives_its_connection_back(
    world: StandIn, scenes: tuple[StandIn, Serving], tab: Browser
) -> None:
    tab.run("window.dispatchEvent(new PageTransitionEvent('pagehide'))")
    assert tab.text("#live") == "paused"
    world.put(f"{JOBS}/meanwhile", job("meanwhile", "Running"))
    wait_until(lambda: scenes[1].cluster_cache.job("rl", "meanwhile"), what="the watch to bring it")
    assert "meanwhile" not in tab.text("#jobs")
    tab.run("window.dispatchEvent(new PageTransitionEvent('pageshow'))")
    tab.sees("#jobs", "meanwhile")
    world.remove(f"{JOBS}/meanwhile")


def test_the_pictures_of_the_documents_can_be_taken(
    world: StandIn, tab: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = [*take(tab, Path())]
    assert [each.stem for each in taken] == [*PICTURES, notebook.NAME]
    assert min(each.stat().st_size for each in taken) > 10_000


def test_a_page_below_a_path_is_live_and_used_by_keys(tab: Browser, tmp_path: Path) -> None:
    with StandIn() as world:
        world.put(f"{JOBS}/grpo", job("grpo", "Running"))
        access = read_access(file=world.kubeconfig(tmp_path / "config"))
        with serving(access, namespace="rl", path="/di/") as served:
            tab.enter(served.url)
            tab.until_live()
            world.put(f"{JOBS}/ppo", job("ppo", "Running"))
            wait_until(lambda: len(tab.texts("[data-row]")) == 2, what="the second one to be seen")
            ActionChains(tab.driver).send_keys("c").perform()
            tab.sees("h1", "Cluster")
            ActionChains(tab.driver).send_keys("g").perform()
            tab.sees("h1", "Jobs")
            assert urlsplit(tab.driver.current_url).path == "/di/"
            tab.find("[data-row] th a").click()
            tab.until_live()
            assert urlsplit(tab.driver.current_url).path == "/di/jobs/rl/grpo"
            assert tab.complaints() == []


def test_ten_thousand_jobs_are_paged_and_searched(tab: Browser, tmp_path: Path) -> None:
    with StandIn() as world:
        for number in range(_MANY):
            phase = "Failed" if number == 4321 else "Running"
            body: dict[str, Any] = job(f"run-{number:05}", phase)
            body["metadata"]["resourceVersion"] = "0"
            world.objects[f"{JOBS}/run-{number:05}"] = body
        access = read_access(file=world.kubeconfig(tmp_path / "config"))
        with serving(access, namespace="rl") as served:
            assert served.cluster_cache.wait_until_complete(60)
            tab.enter(served.url)
            tab.until_live()
            assert "10000 jobs, page 1 of 200" in tab.text(".pager")
            assert len(tab.texts("[data-row]")) == 50
            tab.find("#q").send_keys("run-07777")
            wait_until(lambda: tab.texts("[data-row] th a") == ["run-07777"])
            tab.open("/?phase=Failed")
            assert tab.texts("[data-row] th a") == ["run-04321"]
            world.put(f"{JOBS}/run-00001", job("run-00001", "Failed"))
            wait_until(lambda: len(tab.texts("[data-row]")) == 2, what="the second one to be seen")
            assert tab.complaints() == []
