"""Chromium as Debian has it, driven over WebDriver: what a reader of the page would see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.ports import held_port
from tests.waiting import wait_until
from tools.prepare.debian import CHROMIUM

AXE = Path(__file__).with_name("axe.min.js")
WIDE, NARROW = (1280, 900), (390, 844)
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--force-device-scale-factor=1", "--hide-scrollbars"),
)
_EVERY = 0.1
_NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Chromium drops its connections when an interface of the machine comes or goes, as with each
cluster of another test. The page has to come back by itself, and tests wait for that."""


class Browser:
    """A tab, in the words of the tests."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self.root = ""

    def enter(self, url: str) -> None:
        """Open the address that `di dashboard` prints."""
        # The page before may be of a server that has ended, and complains of that.
        self.driver.get("about:blank")
        self.complaints()
        split = urlsplit(url)
        self.root = f"{split.scheme}://{split.netloc}"
        self.driver.get(url)

    def open(self, path: str, *, live: bool = True) -> None:
        """Go to a page, and wait until its stream of changes is open, if it has one."""
        self.driver.get(f"{self.root}{path}")
        if live and self.run("return !!document.body.dataset.topic"):
            self.until_live()

    def until_live(self) -> None:
        wait_until(lambda: self.text("#live") == "live", what="the page to be live", every=_EVERY)

    def find(self, css: str) -> WebElement:
        found = self.driver.find_elements(By.CSS_SELECTOR, css)
        if not found:
            raise LookupError(css)
        return found[0]

    def text(self, css: str) -> str:
        """What a person reads there; empty if there is none."""
        script = "return document.querySelector(arguments[0])?.innerText ?? ''"
        return str(self.run(script, css))

    def texts(self, css: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
        found: list[str] = self.run(script, css)
        return found

    def _lacks(self, css: str) -> bool:
        raise AssertionError(f"{css} says {self.text(css)[:600]!r}")

    def click(self, css: str) -> None:
        self.find(css).click()

    def sees(self, css: str, words: str) -> None:
        """Wait until the words are there."""
        wait_until(
            lambda: words in self.text(css) or self._lacks(css),
            what=repr(words),
            every=_EVERY,
        )

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def size(self, size: tuple[int, int]) -> None:
        """Of what the page is shown in."""
        width, height = size
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def dark(self, dark: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def scripts(self, allowed: bool) -> None:
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def complaints(self) -> list[str]:
        """The errors in the browser's console since the last call, but for those of a changed
        network.
        """
        logged = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # untyped
        messages = [str(each["message"]) for each in logged]
        return [each for each in messages if not each.endswith(_NETWORK_CHANGED)]

    def axe(self) -> list[str]:
        """What axe-core finds wrong, the serious and the critical of it."""
        if not self.run("return typeof axe !== 'undefined'"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        script = """
            const done = arguments[arguments.length - 1];
            const broken = (error) => done([{ impact: "serious", id: String(error), nodes: [] }]);
            axe.run(document, { resultTypes: ["violations"] })
              .then((found) => done(found.violations), broken);
        """
        found: list[dict[str, Any]] = self.driver.execute_async_script(script)
        return [
            f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]

    def overflow(self) -> int:
        """Pixels by which the page is wider than what it is shown in."""
        script = (
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return int(self.run(script))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Run one with an empty profile until the end of the block."""
    CHROMIUM.ensure()
    program, driver_program = CHROMIUM.programs
    options = ChromeOptions()
    options.binary_location = program
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with held_port() as port:
        service = ChromeService(driver_program, port=port)
        driver = Chrome(options=options, service=service)
        try:
            driver.set_page_load_timeout(60)
            driver.set_script_timeout(60)
            yield Browser(driver)
        finally:
            driver.quit()
