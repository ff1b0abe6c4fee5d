"""The Lab in a browser: readable on every screen, and progress that survives errors."""

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from apps.operations.core.states import OperationStatus
from apps.operations.services import finish_operation
from apps.scheduling.core.expected.performance import Weights
from apps.scheduling.core.registry import DEFAULT
from apps.testbed.models import LabComparison
from tests.browser.conftest import Site, Visitor, visitor_of
from tests.testbed import lab_world

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def address(site: Site) -> str:
    """Return the page of a finished comparison."""
    return f"/lab/{lab_world.finished().pk}/"


@pytest.mark.parametrize("name", ["desk", "night", "phone"])
def test_a_comparison_fits_and_is_accessible(
    name: str, request: pytest.FixtureRequest, site: Site, address: str
) -> None:
    context: BrowserContext = request.getfixturevalue(name)
    visitor = visitor_of(context, site)
    page = visitor.visit(address)
    for chart in page.locator(".chart[data-figure]").all():
        chart.scroll_into_view_if_needed()
    visitor.wait()
    expect(page.get_by_role("heading", level=1)).to_have_text("five policies")
    assert page.evaluate(OVERFLOW) <= 0
    assert visitor.serious_findings() == []
    assert visitor.errors == []
    page.close()


def test_the_offered_name_follows_the_hours_until_it_is_edited(visitor: Visitor) -> None:
    page = visitor.visit("/lab/")
    page.locator("#lab-form [name=hours]").fill("0.5")
    expect(page.locator("#lab-form [name=name]")).to_have_value("Last 0.5 h")
    page.locator("#lab-form [name=name]").fill("mine")
    page.locator("#lab-form [name=hours]").fill("2")
    expect(page.locator("#lab-form [name=name]")).to_have_value("mine")


def test_progress_is_polled_again_after_an_error(visitor: Visitor) -> None:
    begun = lab_world.comparison()
    asked: list[str] = []

    def fail_once(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=503, json={"title": "Busy"})
        else:
            route.continue_()

    visitor.page.route(f"**/api/v1/operations/{begun.operation_id}/", fail_once)
    page = visitor.visit(f"/lab/{begun.pk}/")
    expect(page.locator("#lab-progress")).to_contain_text("0 of 9 runs")
    finish_operation(begun.operation_id, status=OperationStatus.FAILED, problem={"detail": "X."})
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=60_000)
    assert len(asked) > 1


def test_a_comparison_is_cancelled_resumed_and_deleted(visitor: Visitor) -> None:
    begun = lab_world.comparison(name="short-lived")
    page = visitor.visit(f"/lab/{begun.pk}/")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Resume").click(timeout=60_000)
    page.get_by_role("button", name="Cancel").click(timeout=60_000)
    page.get_by_role("button", name="Delete…").click(timeout=60_000)
    page.locator("#lab-delete").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/lab/")
    assert "short-lived" not in page.content()


def test_fewer_servers_become_a_setting_of_the_policy_in_use(visitor: Visitor) -> None:
    scenario = lab_world.comparison().scenario
    page = visitor.visit(f"/lab/?scenario={scenario.pk}")
    page.get_by_label("Servers to remove").fill("20")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/lab/*/")
    expect(page.get_by_text(f"{DEFAULT}, 20 % fewer servers")).to_be_visible()
    assert LabComparison.objects.latest("created_at").grid[-1]["options"] == {
        "policy": DEFAULT,
        "servers_share": 0.8,
    }


def test_other_weights_loads_and_no_profiling_become_settings(visitor: Visitor) -> None:
    scenario = lab_world.comparison().scenario
    page = visitor.visit(f"/lab/?scenario={scenario.pk}&policy=tarcil")
    expect(page.get_by_label("random", exact=True)).not_to_be_checked()
    page.get_by_label("Add a bound").uncheck()
    page.get_by_label("Without profiling").check()
    page.get_by_text("Parameters of policies").click()
    page.get_by_label("neighbours").fill(f"{Weights().neighbours}, 0.8")
    page.get_by_label("Arrival rates").fill("1, 20")
    expect(page.locator("#lab-estimate")).to_contain_text("numbers from 0.1 to 10")
    page.get_by_label("Arrival rates").fill("1, 2")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/lab/*/")
    made = LabComparison.objects.latest("created_at")
    assert made.baseline == DEFAULT
    settings: dict[str, dict[str, object]] = {
        DEFAULT: {"policy": DEFAULT},
        "tarcil": {"policy": "tarcil"},
        "expected, neighbours 0.8": {"policy": "expected", "parameters": {"neighbours": 0.8}},
        f"{DEFAULT}, no profiling": {"policy": DEFAULT, "profiles": "none"},
    }
    at_two = {f"{name}, load ×2": {**o, "arrival_scale": 2} for name, o in settings.items()}
    assert {each["name"]: each["options"] for each in made.grid} == settings | at_two
