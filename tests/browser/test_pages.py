"""Pages in a browser: no console errors, no serious axe findings, no horizontal scrolling."""

import pytest
from playwright.sync_api import Browser, expect

from apps.inventory.models import ResourceUnit
from apps.workloads.models import Job
from tests.browser.conftest import Site, Visitor, visitor_of

PATHS = {
    "overview": "/",
    "submit": "/submit/",
    "jobs": "/jobs/",
    "job-explain": "/jobs/{running}/?tab=explain",
    "job-why": "/jobs/{running}/?tab=why",
    "job-performance": "/jobs/{running}/?tab=performance",
    "job-allocation": "/jobs/{running}/?tab=allocation",
    "job-events": "/jobs/{running}/?tab=events",
    "job-spec": "/jobs/{running}/?tab=spec",
    "job-api": "/jobs/{running}/?tab=api",
    "job-waiting": "/jobs/{waiting}/",
    "map": "/map/",
    "map-table": "/map/?view=table",
    "server": "/servers/{server}/",
    "applications": "/applications/",
    "applications-none": "/applications/?q=nothing-like-it",
    "application": "/applications/memcached-carts/",
    "application-drifted": "/applications/web-leaf/?matrix=scale_up",
    "application-new": "/applications/nightly-index/",
    "calibrate": "/calibrate/",
    "calibrate-lasso": "/calibrate/?mode=lasso&thin=2000",
    "calibrate-axes": "/calibrate/?mode=axes&ranges=P:0:0.4",
    "classification": "/classification/",
    "classification-earlier": "/classification/?matrix=heterogeneity&revision=1",
    "classification-rows": "/classification/?matrix=base_rate&q=web",
    "decisions": "/decisions/",
    "policies": "/policies/",
    "sampling": "/sampling/",
    "system": "/system/",
}
MAIN = [
    "overview",
    "submit",
    "jobs",
    "job-why",
    "map",
    "server",
    "applications",
    "application",
    "calibrate",
    "classification",
    "decisions",
    "policies",
    "sampling",
    "system",
]


def path(site: Site, name: str) -> str:
    world = site.world
    return PATHS[name].format(
        running=world.running.id, waiting=world.waiting.id, server=world.server.name
    )


@pytest.mark.parametrize("name", PATHS)
def test_a_page_has_no_errors_and_no_serious_findings(visitor: Visitor, name: str) -> None:
    visitor.visit(path(visitor.site, name))
    assert visitor.serious_findings() == []
    assert visitor.errors == []


@pytest.mark.parametrize("name", MAIN)
def test_a_page_passes_in_the_dark(night_visitor: Visitor, name: str) -> None:
    night_visitor.visit(path(night_visitor.site, name))
    assert night_visitor.serious_findings() == []
    assert night_visitor.errors == []


@pytest.mark.parametrize("name", MAIN)
def test_a_phone_never_scrolls_sideways(phone_visitor: Visitor, name: str) -> None:
    page = phone_visitor.visit(path(phone_visitor.site, name))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert phone_visitor.errors == []


@pytest.mark.parametrize("name", MAIN)
def test_a_phone_page_has_no_serious_finding(phone_visitor: Visitor, name: str) -> None:
    phone_visitor.visit(path(phone_visitor.site, name))
    assert phone_visitor.serious_findings() == []


def test_the_login_page_passes(chromium: Browser, site: Site) -> None:
    context = chromium.new_context()
    visitor = visitor_of(context, site)
    visitor.visit("/login/")
    findings = visitor.serious_findings()
    context.close()
    assert findings == []
    assert visitor.errors == []


def test_the_overview_fits_the_screen(visitor: Visitor) -> None:
    page = visitor.visit("/")
    assert page.evaluate("document.documentElement.scrollHeight") <= 920


def test_the_overview_shows_the_numbers_of_the_database(visitor: Visitor) -> None:
    page = visitor.visit("/")
    strip = page.locator("#strip")
    running = Job.objects.filter(state="running").count()
    units = ResourceUnit.objects.count()
    expect(strip).to_contain_text(f"Jobs running{running}")
    expect(strip).to_contain_text(f"of {units:,} units")
    expect(page.locator(".chart-title").first).to_contain_text("of the cores are in use")


def test_charts_are_drawn(visitor: Visitor) -> None:
    page = visitor.visit("/")
    expect(page.locator(".plot .main-svg").nth(4)).to_be_attached()
    expect(page.locator(".plot .hm image")).to_have_count(1)


def test_a_figure_says_how_it_is_computed(visitor: Visitor) -> None:
    page = visitor.visit("/")
    button = page.get_by_role("button", name="How computed").first
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".chart-how").first).to_contain_text("mean CPU use")


def test_the_map_says_how_many_servers_it_shows(visitor: Visitor) -> None:
    page = visitor.visit("/map/")
    expect(page.locator("#map-lead")).to_contain_text("120 servers")
    expect(page.locator("#map-title")).to_contain_text("of the cluster")


def test_the_why_tab_names_the_server_and_the_probability(visitor: Visitor) -> None:
    page = visitor.visit(path(visitor.site, "job-why"))
    expect(page.locator("#why-text")).to_contain_text(visitor.site.world.server.name)
    expect(page.locator("aside")).to_contain_text("16.8 % chance")
    expect(page.locator(".cands tbody tr")).to_have_count(8)


def test_sampling_draws_three_sizes_twice(visitor: Visitor) -> None:
    page = visitor.visit("/sampling/")
    page.mouse.wheel(0, 2000)
    visitor.wait()
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    expect(page.locator(".chart-title").nth(2)).to_contain_text("R = 32")


def test_a_missing_page_has_an_error_page(visitor: Visitor) -> None:
    page = visitor.visit("/nothing/")
    expect(page.locator("h1")).to_have_text("Page not found")
    assert visitor.serious_findings() == []


def test_a_cancelled_drag_on_the_map_keeps_the_selection(visitor: Visitor) -> None:
    page = visitor.visit("/map/")
    canvas = page.locator("#map-canvas canvas")
    box = canvas.bounding_box()
    assert box is not None
    canvas.focus()
    page.keyboard.press("ArrowRight")
    selected = page.locator("#map-side h2")
    expect(selected).to_have_text("srv-0002")
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 200, steps=4)
    canvas.evaluate(
        """canvas => canvas.dispatchEvent(
            new PointerEvent("pointercancel", { pointerId: 1, bubbles: true }))"""
    )
    page.mouse.up()
    expect(selected).to_have_text("srv-0002")


@pytest.mark.parametrize("path", ["/", "/system/"])
@pytest.mark.parametrize("width", [1440, 390])
def test_a_chart_is_plotted_once_as_its_margins_fit_its_labels(
    visitor: Visitor, path: str, width: int
) -> None:
    visitor.page.set_viewport_size({"width": width, "height": 4000})
    page = visitor.visit(path)
    expect(page.locator(".plot .main-svg").first).to_be_visible()
    again = page.locator(".chart").evaluate_all(
        """charts => charts
            .map((chart) => [chart.dataset.figure, chart.querySelector(".plot")._fullLayout])
            .filter(([, layout]) => layout?._redrawFromAutoMarginCount !== undefined)
            .map(([figure, { margin, _size }]) => JSON.stringify([figure, margin, _size]))"""
    )
    assert again == []


def test_the_map_of_an_earlier_moment_shows_only_what_was_recorded(visitor: Visitor) -> None:
    at_s = 20_000
    page = visitor.visit(f"/map/?at={at_s}")
    expect(page.locator("#as-of")).to_contain_text("states, heartbeats and pressure are not")
    expect(page.locator("#map-lead")).to_contain_text("120 servers; all had reported.")
    expect(page.locator("#map-colour option")).to_have_text(["CPU used", "Units allocated"])
    expect(page.locator("#map-title")).to_contain_text("CPU used: ")
    page.locator("#map-canvas canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map-side dt")).to_have_text(["Platform", "Rack", "CPU used", "Units"])
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.locator("#map-table th")).to_have_text(
        ["Server", "Platform", "Rack", "CPU used", "Allocated"]
    )
    assert not visitor.errors
