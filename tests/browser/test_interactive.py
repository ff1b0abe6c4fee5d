"""The clock of `./dev bench interactive`."""

import time

from playwright.sync_api import BrowserContext, Route

from benchmarks.interactive import HAS_CHARTS, Times, as_table, usable_after_s
from tests.browser.conftest import Site

LATE_S = 2.0


def test_a_page_is_usable_after_its_last_chart_in_the_window(
    desk: BrowserContext, site: Site
) -> None:
    def late(route: Route) -> None:
        time.sleep(LATE_S)  # a slow answer
        route.continue_()

    address = f"{site.url}/"
    desk.route("**/figures/utilisation/**", late)
    assert usable_after_s(desk, address, HAS_CHARTS) >= LATE_S
    desk.unroute("**/figures/utilisation/**")
    assert usable_after_s(desk, address, HAS_CHARTS) > 0.0


def test_a_goal_is_met_if_both_medians_are_within_it() -> None:
    assert Times("a page", 1.5, (1.0, 1.4, 9.0), (0.5,)).is_met
    assert not Times("a page", 1.5, (1.0, 1.6, 1.7), (0.5,)).is_met
    assert not Times("a page", 1.5, (1.0,), (1.6,)).is_met
    assert Times("a page", None, (99.0,), (99.0,)).is_met


def test_the_table_shows_medians_and_largest_values() -> None:
    rows = as_table(
        [Times("a page", 1.5, (1.0, 1.4, 9.0), (0.5,)), Times("a key", None, (), (2,))]
    )
    assert rows[1:] == [
        ["a page", "1.40 (9.00)", "0.50 (0.50)", "1.5"],
        ["a key", "", "2.00 (2.00)", ""],
    ]
