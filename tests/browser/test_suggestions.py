"""What the pages offer: a measurement, and the usual job of an application."""

from playwright.sync_api import Route, expect

from tests import factories
from tests.browser.conftest import Visitor


def test_the_sampling_is_measured_from_its_page(visitor: Visitor) -> None:
    page = visitor.visit("/sampling/")
    page.locator("[data-sampling=run]").click()
    expect(page.locator("#sampling-run")).to_contain_text("0 of 9,000 decisions")
    page.reload()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("[data-sampling=run]")).to_be_visible()
    assert visitor.errors == []


def test_the_form_follows_the_application(visitor: Visitor) -> None:
    project = visitor.site.world.running.project
    application = factories.application("follow-me")
    target = {
        "kind": "throughput_latency",
        "qps": 4000.0,
        "latency_seconds": 0.02,
        "percentile": 99.0,
    }
    factories.job("followed", project=project, application=application, target=target)
    page = visitor.visit("/submit/")
    page.get_by_label("Load").evaluate("input => { input.value = '1234'; }")
    page.get_by_label("Application", exact=True).fill("follow-me")
    page.keyboard.press("Tab")
    expect(page.locator("#usual")).to_contain_text("Filled in: the target of its last job.")
    expect(page.get_by_label("Kind of target")).to_have_value("throughput_latency")
    expect(page.get_by_label("Load")).to_have_value("4000")
    expect(page.get_by_label("Latency")).to_have_value("20")
    page.get_by_label("Load").fill("99")
    page.get_by_label("Application", exact=True).fill("wordcount")
    page.get_by_label("Application", exact=True).fill("follow-me")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Latency")).to_have_value("20")
    expect(page.get_by_label("Load")).to_have_value("99")


def test_the_field_in_which_one_types_is_left_alone(visitor: Visitor) -> None:
    project = visitor.site.world.running.project
    application = factories.application("typed-into")
    target = {"kind": "completion_time", "seconds": 1800.0}
    factories.job("typed", project=project, application=application, target=target)
    page = visitor.visit("/submit/")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/submit/usual.json*", hold)
    field = page.get_by_label("Complete within")
    before = field.input_value()
    page.get_by_label("Application", exact=True).fill("typed-into")
    with page.expect_request("**/submit/usual.json*"):
        field.focus()
    for _ in range(1_000):  # the handler of the route runs after the request's event
        if held:
            break
        page.wait_for_timeout(10)
    (route,) = held
    route.continue_()
    expect(page.locator("#usual")).to_contain_text("Filled in: the target of its last job.")
    expect(field).to_have_value(before)
    assert before != "1800"


def test_targets_are_offered_only_for_the_work_that_they_were_computed_for(
    visitor: Visitor,
) -> None:
    usual = {
        "target": {"kind": "completion_time", "seconds": 600},
        "input_bytes": 130_000_000,
        "tasks": 1,
        "duration_seconds": None,
        "units": None,
        "reason": "",
        "suggestions": [{"text": "done within 7 s", "target": {"seconds": 7}, "reason": "r"}],
    }
    page = visitor.visit("/submit/")
    page.route("**/submit/usual.json*", lambda route: route.fulfill(json=usual))
    page.get_by_label("Application", exact=True).fill("grows")
    page.keyboard.press("Tab")
    offer = page.get_by_role("button", name="Set target: done within 7 s")
    expect(offer).to_be_visible()
    page.get_by_label("Tasks").fill("9000")
    expect(offer).to_be_hidden()
    expect(page.locator("#usual")).to_be_hidden()
    page.get_by_label("Tasks").fill("1")
    expect(offer).to_be_visible()
    page.get_by_label("Input", exact=True).fill("4000")
    expect(offer).to_be_hidden()


def test_a_check_shows_at_once_that_it_works(visitor: Visitor) -> None:
    page = visitor.visit("/submit/")
    page.route("**/submit/usual.json*", lambda route: route.fulfill(json={}))  # a new application
    page.get_by_label("Application", exact=True).fill("wordcount")
    held: list[Route] = []
    page.route("**/api/v1/checks/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin
    button = page.locator("#check-btn")
    button.click()
    expect(page.locator("#p-check")).to_contain_text("Checking…")
    expect(button).to_be_disabled()
    held[0].fulfill(status=422, json={"title": "Refused", "errors": []})
    expect(page.locator("#p-check")).to_contain_text("Refused")
    expect(page.locator("#submit-note")).to_have_text("Not checked.")
    expect(button).to_be_enabled()
