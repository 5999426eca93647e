"""The page that compares jobs, in a real browser."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.browser import past
from tests.browser.chromium import NARROW, WIDE, Browser
from tests.integration.page.test_dashboard_pages import scenes, tab, world
from tests.waiting import wait_until

__all__ = ["scenes", "tab", "world"]
pytestmark = pytest.mark.usefixtures("world")
_PATH = f"/compare?{past.COMPARED}"
_PICTURE = """
    const done = arguments[arguments.length - 1];
    HTMLAnchorElement.prototype.click = function () { window.named = this.download; };
    URL.createObjectURL = (blob) => {
        createImageBitmap(blob).then((image) => {
            const canvas = document.createElement("canvas");
            canvas.width = image.width;
            canvas.height = image.height;
            const ctx = canvas.getContext("2d");
            ctx.drawImage(image, 0, 0);
            const colours = new Map();
            const data = ctx.getImageData(0, 0, image.width, image.height).data;
            for (let at = 0; at < data.length; at += 4) {
                const key = [data[at], data[at + 1], data[at + 2], data[at + 3]].join();
                colours.set(key, (colours.get(key) || 0) + 1);
            }
            const drawn = document.querySelector("#plot canvas");
            done([blob.type, window.named, image.width === drawn.width,
                  image.height - drawn.height, [...colours]]);
        });
        return "#";
    };
    document.getElementById("compare-png").click();
"""
"""Takes the picture in place of saving it."""


def _query(tab: Browser) -> dict[str, list[str]]:
    return parse_qs(urlsplit(tab.run("return location.href")).query)


def _plot(tab: Browser, name: str) -> str | None:
    return tab.find("#plot").get_attribute(f"data-{name}")


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_ticked_jobs_are_remembered_from_page_to_page_and_compared(tab: Browser) -> None:
    tab.open("/")
    assert tab.run("return document.getElementById('chosen').hidden")
    tab.click("#choose-rl-grpo-7b")
    assert tab.text("#chosen-count") == "1 job is ticked; tick one more to compare"
    assert not tab.find("#chosen-go").is_enabled()
    tab.open("/?q=halfcheetah")
    assert tab.texts("#jobs tbody th a") == ["halfcheetah"]
    tab.run("document.querySelector('#jobs tbody th a').focus()")
    ActionChains(tab.driver).send_keys("x").perform()
    assert tab.text("#chosen-count") == "2 jobs are ticked"
    tab.run("return di.refresh()")
    assert tab.run("return document.querySelector('.choose').checked"), "a refresh keeps ticks"
    tab.find("#chosen-go").send_keys(Keys.ENTER)
    wait_until(lambda: "2 jobs compared" in tab.text("#head"), what="the comparison")
    assert {*_query(tab)["job"]} == {"rl/grpo-7b", "rl/halfcheetah"}
    tab.open("/")
    tab.click("#chosen-all")
    ticked = len(tab.texts(".choose"))
    assert tab.text("#chosen-count") == f"{ticked} jobs are ticked"
    tab.click("#chosen-clear")
    assert tab.run("return document.getElementById('chosen').hidden")


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_two_programs_are_two_lines_with_bands_that_the_pointer_reads(tab: Browser) -> None:
    tab.open(_PATH)
    tab.sees("#results", "sac-walker-1")
    assert tab.texts(".key-list .key") == ["ppo-walker-1 +4", "sac-walker-1 +4"]
    assert (_plot(tab, "bands"), _plot(tab, "axis"), _plot(tab, "scale")) == ("2", "step", "linear")

    def told() -> bool:
        # A window that was just sized draws its plot again, and then the pointer has to move.
        plot = tab.find("#plot .u-over")
        for step in (-5, 5):
            ActionChains(tab.driver).move_to_element_with_offset(plot, step, 0).perform()
        return "-walker-1 +4 " in tab.text("#at") and " to " in tab.text("#at")

    wait_until(told, what="the values under the pointer")


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_the_controls_change_plot_table_and_address(tab: Browser) -> None:
    tab.open(_PATH)
    tab.click("#each")
    wait_until(lambda: len(tab.texts(".key-list .key")) == 10, what="a line of each job")
    tab.click("#log")
    Select(tab.find("#by")).select_by_value("time")
    Select(tab.find("#metric")).select_by_visible_text("loss")
    tab.run(
        "const smooth = document.getElementById('smooth'); smooth.value = 0.9;"
        "smooth.dispatchEvent(new Event('input', { bubbles: true }))"
    )
    wait_until(lambda: tab.text("#plot-title").startswith("loss"), what="another metric")
    wait_until(
        lambda: (_plot(tab, "axis"), _plot(tab, "scale")) == ("time", "log"), what="the axes"
    )
    query = _query(tab)
    assert len(query["job"]) == 10
    assert [query[key] for key in ("metric", "by", "smooth", "log", "each")] == [
        *(["loss"], ["time"], ["0.9"], ["1"], ["1"])
    ]
    assert "metric=loss" in str(tab.find("#compare-csv").get_attribute("href"))
    assert tab.axe() == []
    for size in (NARROW, WIDE):
        tab.size(size)
        assert tab.overflow() == 0, size


@pytest.mark.proves("dashboard.md#comparing-jobs")
def test_the_picture_has_lines_and_bands_on_a_ground(tab: Browser) -> None:
    tab.open(_PATH)
    wait_until(lambda: tab.find("#compare-png").is_displayed(), what="the button")
    found: list[Any] = tab.driver.execute_async_script(_PICTURE)
    kind, name, is_as_wide, more, colours = found
    assert (kind, name, is_as_wide) == ("image/png", "compare-return.png", True)
    assert more > 40, "the title above, and the names below"
    pixels = {tuple(map(int, each.split(","))): count for each, count in colours}
    assert max(pixels, key=pixels.__getitem__) == (255, 255, 255, 255), "the card is the ground"
    for line in ((59, 91, 219), (217, 72, 15)):
        band = tuple(round(0.8 * 255 + 0.2 * each) for each in line)
        # The names have 48 pixels of a line each; most pixels of the curves are smoothed.
        assert _near(pixels, line, 60) > 500
        assert _near(pixels, band, 3) > 1000


def _near(pixels: dict[tuple[int, ...], int], colour: tuple[int, ...], far: int) -> int:
    """Return the number of pixels whose channels differ by so much at most from a color."""
    return sum(
        count
        for each, count in pixels.items()
        if all(abs(one - other) <= far for one, other in zip(each, colour, strict=False))
    )
