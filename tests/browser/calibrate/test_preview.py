"""Preview of the effect of weights on the running cluster."""

import re
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from playwright.sync_api import Page, Route, expect

from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.placement.models import Plan
from apps.placement.services.rebalancing import previews
from tests.browser.calibrate.acts import pick_nine


def test_a_preview_shows_changes_and_writes_nothing(page: Page) -> None:
    pick_nine(page)
    title = page.locator("#cal-preview-title")
    expect(title).to_have_text(
        re.compile(r"Running cluster: (no migrations|.* migrations?$)"), timeout=60_000
    )
    expect(page.locator("#cal-preview-sub")).to_contain_text("The preview changes nothing.")
    expect(page.locator(".ba tbody tr").first).to_contain_text("Power")
    assert not Plan.objects.exists()


def job(number: int, ratio: float, **changes: str | float) -> dict[str, Any]:
    """A job of an answer, with what it ``gains`` or ``loses``."""
    job: dict[str, Any] = {"id": str(UUID(int=number)), "name": f"job-{number}"}
    job |= {"ratio": ratio, "moves": 1}
    return job | {"attainment": 1.0, "gains": "", "loses": ""} | changes


def answering(page: Page, **said: Any) -> None:
    """Replace the answers of previews."""

    def other(route: Route) -> None:
        if route.request.method != "GET":  # the page also stops previews
            route.continue_()
            return
        body = route.fetch().json()
        if body.get("answer"):
            body["answer"] |= said
        route.fulfill(json=body)

    page.route(re.compile(r"/api/v1/previews/[0-9a-f-]+/$"), other)


def test_the_most_slowed_job_is_named_even_if_not_sent(page: Page) -> None:
    sent = [job(number, 0.97, gains="protected", loses="full speed") for number in range(100)]
    worst = job(777, 0.5, loses="full speed")
    answering(page, jobs=sent, jobs_changed=130, worst=worst)
    pick_nine(page)
    row = page.locator(".ba tbody tr", has_text="Most affected job")
    expect(row).to_contain_text("Most affected job: job-777", timeout=60_000)
    expect(row).to_contain_text("−50.0 %")


def test_a_job_that_falls_below_its_target_comes_before_one_slowed_more(page: Page) -> None:
    slowed = job(1, 0.5, attainment=4.0, loses="full speed")
    falling = job(2, 0.9, attainment=1.0, loses="full speed")
    answering(page, jobs=[slowed, falling], jobs_changed=2, worst=slowed)
    pick_nine(page)
    row = page.locator(".ba tbody tr", has_text="Most affected job")
    expect(row).to_contain_text("Most affected job: job-2", timeout=60_000)
    expect(row).to_contain_text("would miss its target")
    page.locator("#cal-preview-body summary").click()
    listed = page.locator("#cal-preview-body details tbody tr")
    expect(listed.first).to_contain_text("misses target, 0.90 × target")
    expect(listed).to_have_text([re.compile("job-2"), re.compile("job-1")])


def test_a_slowed_job_above_its_target_gives_no_warning(page: Page) -> None:
    slowed = job(1, 0.95, attainment=2.29, loses="full speed")
    answering(page, jobs=[slowed], jobs_changed=1, worst=slowed)
    pick_nine(page)
    row = page.locator(".ba tbody tr", has_text="Most affected job")
    expect(row).to_contain_text("still meets its target", timeout=60_000)
    expect(row.locator("rect")).to_have_class("fn")


def test_the_preview_explains_remaining_crossing_traffic(page: Page) -> None:
    sentence = "19 jobs stay apart: bringing them together would cost more than it gains."
    answering(page, apart={"jobs": 19, "without_room": 0, "meaning": sentence})
    pick_nine(page)
    row = page.locator(".ba tbody tr", has_text="Crossing traffic")
    expect(row).to_contain_text(
        "containers outside the server or rack of their job", timeout=60_000
    )
    expect(page.locator(".ba tbody tr.more")).to_have_text(sentence)


def test_no_explanation_without_crossing_traffic(page: Page) -> None:
    answering(page, apart={"jobs": 0, "without_room": 0, "meaning": ""})
    pick_nine(page)
    expect(page.locator(".ba tbody tr", has_text="Diversity")).to_be_visible(timeout=60_000)
    expect(page.locator(".ba tbody tr.more")).to_have_count(0)


def test_a_truncated_list_of_jobs_shows_the_total(
    page: Page,
) -> None:
    sent = [job(number, 1.1, gains="faster") for number in range(60)]
    sent += [job(number, 0.9, loses="full speed") for number in range(60, 100)]
    answering(page, jobs=sent, jobs_changed=130, worst=sent[-1])
    pick_nine(page)
    expect(page.locator("#cal-preview-body summary")).to_have_text(
        "130 jobs change; of the 100 most changed, 60 jobs gain, 40 lose", timeout=60_000
    )


def test_a_complete_list_of_jobs_is_counted(page: Page) -> None:
    sent = [job(1, 1.1, gains="faster"), job(2, 0.9, loses="full speed")]
    sent += [job(3, 0.9, gains="protected", loses="full speed"), job(4, 1.0)]
    answering(page, jobs=sent, jobs_changed=4, worst=sent[-1])
    pick_nine(page)
    expect(page.locator("#cal-preview-body summary")).to_have_text(
        "1 job gains, 1 loses, 1 does both", timeout=60_000
    )


def never_settles(*args: Any, **more: Any) -> RebalancingResult:
    """Search as usual, but never finish before the time limit or a stop."""
    until = time.monotonic() + more["limit_s"]
    result = improve(*args, **more)
    while time.monotonic() < until and not more["should_stop"]():
        time.sleep(0.05)
    return replace(result, is_complete=False)


NO_HALF_SECONDS = """(() => {
    const later = window.setTimeout;
    window.setTimeout = (work, ms, ...more) => (ms === 500 ? 0 : later(work, ms, ...more));
})()"""


def test_a_front_opened_with_picks_is_previewed_at_once(page: Page) -> None:
    pick_nine(page)
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    page.add_init_script(NO_HALF_SECONDS)  # a request that waits for more changes is never sent
    with page.expect_request(
        lambda request: request.method == "POST" and request.url.endswith("/api/v1/previews/")
    ):
        page.reload()
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)


def test_a_first_answer_is_polled_ten_times_a_second(page: Page) -> None:
    pick_nine(page)
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    page.add_init_script(RECORDS_WAITS)
    early: list[Any] = []

    def without_answer_at_first(route: Route) -> None:
        if early or route.request.method != "GET":
            route.continue_()
            return
        early.append(route)
        response = route.fetch()
        body = {**response.json(), "answer": None, "state": "searching"}
        route.fulfill(response=response, json=body)

    page.route(re.compile(r"/api/v1/previews/[^/]+/$"), without_answer_at_first)
    page.reload()
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    waits_ms = page.evaluate("window.waits")
    assert 100 in waits_ms
    assert 250 not in waits_ms


RECORDS_WAITS = """(() => {
    const later = window.setTimeout;
    window.waits = [];
    window.setTimeout = (work, ms, ...more) => {
        window.waits.push(ms);
        return later(work, ms, ...more);
    };
})()"""


def test_a_preview_can_be_stopped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    pick_nine(page)
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    monkeypatch.setattr(previews, "improve", never_settles)
    page.reload()  # one preview of all picks: no later weights can replace the stopped one
    page.locator("#cal-preview-stop").click(timeout=60_000)
    expect(page.locator("#cal-preview-sub")).to_contain_text("Stopped")
    expect(page.locator("#cal-preview-progress")).to_be_hidden()
    again = page.get_by_role("button", name="Search again")
    expect(again).to_be_focused()
    again.press("Enter")
    expect(page.locator("#cal-preview-stop")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cal-preview-sub")).to_contain_text("Stopped")


def test_a_failed_preview_is_searched_again(page: Page) -> None:
    failing = [True]

    def fail(route: Route) -> None:
        if not failing[0] or route.request.method != "GET":
            route.continue_()
            return
        response = route.fetch()
        problem = "No worker was free. Try again."
        body = {**response.json(), "answer": None, "state": "failed", "problem": problem}
        route.fulfill(response=response, json=body)

    pick_nine(page)
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    page.route(re.compile(r"/api/v1/previews/[^/]+/$"), fail)
    page.reload()  # one preview of all picks
    expect(page.locator("#cal-preview-sub")).to_have_text(
        "The preview failed: No worker was free. Try again. The preview changes nothing."
    )
    failing[0] = False
    again = page.get_by_role("button", name="Search again")
    again.click()
    expect(again).to_be_hidden()
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)


# The first request to search is sent when the test releases it.
HOLDS_FIRST = """(() => {
    const send = window.fetch;
    const released = new Promise((resolve) => { window.release = resolve; });
    let count = 0;
    window.order = [];
    window.fetch = async (path, options = {}) => {
        if (options.method !== "POST" || !String(path).endsWith("/api/v1/previews/"))
            return send(path, options);
        count += 1;
        const turn = count;
        window.order.push(`sent ${turn}`);
        if (turn === 1) await released;
        const answer = await send(path, options);
        window.order.push(`answered ${turn}`);
        return answer;
    };
})()"""
FIRST_IS_SENT = "() => window.order.length === 1"
ALL_ARE_ANSWERED = "() => window.order.length === 4"
LATER_MS = 2_000  # after a change of the weights, until a request that waits for nothing is sent


def test_a_delayed_request_cannot_stop_the_preview_of_later_weights(page: Page) -> None:
    """The server stops a user's previous preview, whichever request arrives last."""
    pick_nine(page)
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
    page.add_init_script(HOLDS_FIRST)
    page.reload()
    page.wait_for_function(FIRST_IS_SENT)
    page.get_by_role("button", name="Remove pick 9").click()
    page.wait_for_timeout(LATER_MS)
    page.evaluate("() => window.release()")
    page.wait_for_function(ALL_ARE_ANSWERED)
    assert page.evaluate("() => window.order") == ["sent 1", "answered 1", "sent 2", "answered 2"]
    expect(page.locator("#cal-maps")).to_be_attached(timeout=60_000)
