"""What a page does until it can be used."""

from tests.browser.conftest import Visitor

PULSES = """() => document.getAnimations()
    .filter((one) => one.effect.getComputedTiming().endTime === Infinity)
    .map((one) => one.effect.getTiming().delay)"""


def test_placeholders_pulse_only_if_a_page_loads_slowly(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/figures/**", lambda route: None)
    page.goto(visitor.site.url)
    delays_ms = page.evaluate(PULSES)
    assert len(delays_ms) >= 5
    assert min(delays_ms) == 2000
