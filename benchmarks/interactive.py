"""Time until pages can be used, in headless Chromium on a live instance.

    ./dev bench interactive [--servers 600] [--warm-up 180] [--rounds 9]
    ./dev bench interactive --url http://127.0.0.1:8000 --password ...

Starts its own instance, whose replay goes on during the measurement, requests a front of the
running cluster and accepts placements on it. Then it opens each page in a new browser context
(cold cache) and again in the same one (warm cache). A page is usable when its scripts have run,
what is in the window is drawn, and the main thread has finished the frame. Returns 1 if a median
misses its goal.
"""

import argparse
import json
import re
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from playwright.sync_api import Browser, BrowserContext, Page, TimeoutError, sync_playwright

from benchmarks import _results
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import RunningInstance
from tests.browser.chromium import ARGUMENTS, CHROMIUM, DESK, NOTHING_LOADS
from tests.browser.screenshots import (
    MIN_PICKS,
    SCREENS,
    MissingError,
    accept_on,
    accepted_on,
    await_placement,
    pick_on_screens,
)

TIMEOUT_MS: Final = 60_000.0
# Milliseconds from the start of the navigation until the frame with the first use is drawn.
CLOCK: Final = """(() => {
    const isUsable = %s;
    const check = () => {
        if (document.readyState !== "complete" || !isUsable()) requestAnimationFrame(check);
        else setTimeout(() => { window.usableAfterMs = performance.now(); });
    };
    requestAnimationFrame(check);
})()"""
HAS_CHARTS: Final = f"() => document.querySelector('.plot') !== null && ({NOTHING_LOADS})()"
HAS_PLACEMENTS: Final = """() => document.querySelector('[data-screen="D-C"] .ring') !== null"""
HAS_PREVIEW: Final = "() => document.querySelector('#cal-preview-body #cal-maps') !== null"
# Milliseconds from a key that changes the picks until the preview of the new weights is drawn.
AFTER_KEY: Final = """() => new Promise((resolve) => {
    const body = document.getElementById("cal-preview-body");
    let pressedAt = null;
    document.addEventListener("keydown", (event) => {
        if (event.key.toLowerCase() === "z") pressedAt = performance.now();
    }, { capture: true });
    let isOld = false;
    const check = () => {
        isOld ||= pressedAt !== null && body.classList.contains("old");
        if (!isOld || body.classList.contains("old")) requestAnimationFrame(check);
        else setTimeout(() => resolve(performance.now() - pressedAt));
    };
    window.previewAfterKey = null;
    check();
}).then((ms) => { window.previewAfterKey = ms; })"""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: an address, the condition in the page, and the goal in seconds."""

    name: str
    address: str
    is_usable: str
    goal_s: float | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each round; ``cold`` is empty if a measure has no cold cache."""

    name: str
    goal_s: float | None
    cold: tuple[float, ...]
    warm: tuple[float, ...]

    @property
    def is_met(self) -> bool:
        """Whether both medians are within the goal."""
        medians = [float(np.median(times)) for times in (self.cold, self.warm) if times]
        return self.goal_s is None or max(medians) <= self.goal_s


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 if all goals are met."""
    options = _options(argv)
    before_ms = calibrate()
    with site(options) as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        times = _measured(browser, running, options)
        browser.close()
    after_ms = calibrate()
    table = as_table(times)
    _results.store(
        "interactive",
        arguments={name: value for name, value in vars(options).items() if name != "password"},
        figures={
            "calibration_ms": [before_ms, after_ms],
            "seconds": {row.name: {"cold": row.cold, "warm": row.warm} for row in times},
        },
        tables={"pages": table},
    )
    sys.stdout.write(f"{_results.markdown(table)}\n{calibration_line(before_ms, after_ms)}\n")
    return int(not all(row.is_met for row in times))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.interactive")
    parser.add_argument("--servers", type=int, default=600)
    parser.add_argument("--warm-up", type=float, default=180.0, help="seconds of replay before")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--url", help="of a running instance, instead of one of its own")
    parser.add_argument("--password", help="of its user admin")
    return parser.parse_args(argv)


@dataclass(frozen=True, slots=True)
class Site:
    """A running instance; ``is_new`` if the administrator has to choose a password."""

    url: str
    password: str
    is_new: bool


@contextmanager
def site(options: argparse.Namespace) -> Iterator[Site]:
    """Provide the instance of the address, or one of its own whose replay has just begun."""
    if options.url:
        yield Site(options.url, options.password or "", is_new=False)
        return
    instance = RunningInstance(("--servers", str(options.servers)))
    try:
        instance.start()
        found = re.search(r"one-time password (\S+)", instance.output())
        assert found is not None  # noqa: S101 - a fresh instance prints it
        yield Site(instance.url, found[1], is_new=True)
    finally:
        instance.discard()


def as_table(times: Sequence[Times]) -> _results.Table:
    """Return medians, and the largest value of all rounds in parentheses, in seconds."""
    head = ["from opening a page, or a key", "cold cache, s", "warm cache, s", "goal, s"]
    rows = [
        [
            row.name,
            *(
                f"{np.median(values):.2f} ({max(values):.2f})" if values else ""
                for values in (row.cold, row.warm)
            ),
            "" if row.goal_s is None else f"{row.goal_s:.1f}",
        ]
        for row in times
    ]
    return [head, *rows]


# ---- the pages ----


def _measured(browser: Browser, running: Site, options: argparse.Namespace) -> list[Times]:
    """Measure all pages of an instance whose replay has run for a while."""
    url = running.url
    with closing(_new_context(browser)) as context:
        page = context.new_page()
        _sign_in(page, running)
        _tell("the replay runs")
        if running.is_new:
            page.wait_for_timeout(1000.0 * options.warm_up)
        await_placement(page, url, timeout_s=120.0, needed=["front"])
        _tell("a front exists")
        draft = _draft_with_picks(page, url)
        session: Any = context.storage_state()
        _tell("placements are accepted on each screen")
        after_key = [_after_key_s(page, key) for _ in range(options.rounds) for key in KEYS]
    measures = (
        Measure("Overview, its charts", "/", HAS_CHARTS, 1.5),
        Measure("Calibrate, its placements", "/calibrate/", HAS_PLACEMENTS),
        Measure("Calibrate with picks, its first preview", "/calibrate/", HAS_PREVIEW, 2.0),
    )
    times = []
    for measure in measures:
        stored = draft if measure.is_usable == HAS_PREVIEW else {}
        rounds = [_round_s(browser, url, measure, session, stored) for _ in range(options.rounds)]
        cold, warm = zip(*rounds, strict=True)
        _tell(measure.name)
        times.append(Times(measure.name, measure.goal_s, cold, warm))
    return [*times, Times("Calibrate, the preview after a pick", 2.0, (), tuple(after_key))]


def _tell(what: str) -> None:
    """Report how far the run is, on the standard error output."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")


def _sign_in(page: Page, running: Site) -> None:
    """Sign in as the administrator, who has to choose a password on a new instance."""
    page.goto(f"{running.url}/login/")
    page.fill("#id_username", "admin")
    page.fill("#id_password", running.password)
    page.click("button[type=submit]")
    if not running.is_new:
        page.wait_for_url(f"{running.url}/")
        return
    chosen = secrets.token_urlsafe(16)
    page.fill("#new-password", chosen)
    page.fill("#repeat-password", chosen)
    page.get_by_role("button", name="Set password").click()
    page.wait_for_url(f"{running.url}/")


def _new_context(browser: Browser, **options: Any) -> BrowserContext:
    width, height = DESK
    return browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light", **options
    )


def _round_s(
    browser: Browser, url: str, measure: Measure, session: Any, draft: dict[str, str]
) -> tuple[float, float]:
    """Seconds until a page is usable with a cold and then with a warm cache."""
    with closing(_new_context(browser, storage_state=session)) as context:
        stored = "".join(
            f"sessionStorage.setItem({json.dumps(key)}, {json.dumps(value)});"
            for key, value in draft.items()
        )
        context.add_init_script(stored)
        address = url + measure.address
        cold = usable_after_s(context, address, measure.is_usable)
        return cold, usable_after_s(context, address, measure.is_usable)


def usable_after_s(context: BrowserContext, address: str, is_usable: str) -> float:
    """Open an address in a new tab; return the seconds until it is usable."""
    page = context.new_page()
    page.add_init_script(CLOCK % is_usable)
    page.goto(address, wait_until="commit")
    page.wait_for_function(
        "() => window.usableAfterMs !== undefined", polling=100, timeout=TIMEOUT_MS
    )
    milliseconds = float(page.evaluate("() => window.usableAfterMs"))
    page.close()
    return milliseconds / 1000.0


# ---- picks ----

KEYS: Final = ("Control+z", "Control+Shift+z")  # withdraw the last pick, accept it again


def _draft_with_picks(page: Page, url: str) -> dict[str, str]:
    """Accept placements on every screen; return what the tab stores of them."""
    page.goto(f"{url}/calibrate/")
    pick_on_screens(page)
    page.wait_for_function(HAS_PREVIEW, timeout=TIMEOUT_MS)
    _accept_another(page)
    stored: dict[str, str] = page.evaluate("() => ({ ...sessionStorage })")
    return stored


def _accept_another(page: Page) -> None:
    """Accept one more placement, whose withdrawal leaves enough for weights and changes them.

    Raises
    ------
    MissingError : no placement that can be accepted on any screen changes the weights.
    """
    weights = page.locator("#cal-bars")
    for screen in SCREENS * MIN_PICKS:
        before = weights.inner_text()
        accept_on(page, screen, accepted_on(page, screen) + 1)
        with suppress(TimeoutError):  # such a placement does not change the weights
            page.wait_for_function(
                "(before) => document.getElementById('cal-bars').innerText !== before",
                arg=before,
                timeout=2_000,
            )
            return
    raise MissingError("no placement that can be accepted changes the weights")


def _after_key_s(page: Page, key: str) -> float:
    """Seconds from a key that changes the picks until the new preview is shown."""
    page.wait_for_timeout(1000.0)  # of reading the preview before, which is being refined
    page.evaluate(f"() => {{ ({AFTER_KEY})(); }}")
    page.keyboard.press(key)
    page.wait_for_function(
        "() => window.previewAfterKey !== null", polling=100, timeout=TIMEOUT_MS
    )
    return float(page.evaluate("() => window.previewAfterKey")) / 1000.0


if __name__ == "__main__":
    sys.exit(main())
