"""The text of an API error."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.unit.conftest import Script

TEXT = """
    const { fullProblemText } = await load("notices.js");
    return fullProblemText(argument);
"""
LOW = {"pointer": "/cells/0/value", "detail": "must be at least 0, not -1"}
HIGH = {"pointer": "/cells/1/value", "detail": "must be at most 100, not 101"}
TITLE = {"title": "Invalid input"}


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            {**TITLE, "detail": "/cells/0/value: must be at least 0, not -1", "errors": [LOW]},
            "Invalid input: value: must be at least 0, not -1",
        ),
        (
            {**TITLE, "detail": "2 fields are invalid", "errors": [LOW, HIGH]},
            "Invalid input: 2 fields are invalid; must be at least 0, not -1;"
            " must be at most 100, not 101",
        ),
        (
            {**TITLE, "detail": "Too late.", "request_id": "r1"},
            "Invalid input: Too late. (request r1)",
        ),
        ({**TITLE, "errors": [LOW]}, "Invalid input; must be at least 0, not -1"),
        (
            {
                **TITLE,
                "detail": "/: a job must be an object",
                "errors": [{"pointer": "", "detail": "a job must be an object"}],
            },
            "Invalid input: a job must be an object",
        ),
    ],
)
def test_every_problem_of_a_field_is_told_once(
    problem: dict[str, Any], text: str, js: Script
) -> None:
    assert js(TEXT, problem) == text


def test_a_lost_connection_is_told_as_a_problem(js: Script, empty_page: Page) -> None:
    empty_page.route("**/api/v1/lost/", lambda route: route.abort())
    script = """
        const { ApiError, call } = await load("api.js");
        const { problemText } = await load("notices.js");
        const error = await call("GET", "/api/v1/lost/").catch((one) => one);
        return [error instanceof ApiError, error.status, problemText(error.problem)];"""
    assert js(script) == [True, 0, "The server did not answer: Try again."]


PROPOSAL = {
    "job_name": "web-1",
    "named": [],
    "victims": 1,
    "broken_promises": 0,
    "lost_unit_seconds": 5,
    "check": {"can_apply": True, "lost_unit_seconds": 5},
}
DIALOG = """
    document.body.innerHTML = `<dialog id="review-proposal">
        <h2 id="rp-title"></h2><p id="rp-summary"></p><div id="rp-victims"></div>
        <p id="rp-check"></p><div id="rp-limits"><span id="rp-exceeded"></span></div>
        <input type="checkbox" id="rp-override"><p id="rp-error"></p>
        <button id="rp-go"></button><button id="rp-dismiss"></button></dialog>`;
    const { openProposal } = await load("proposals.js");
    const byId = (id) => document.getElementById(id);
    await openProposal("7");
    byId("rp-go").click();
    for (let i = 0; i < 100 && byId("rp-error").hidden; i += 1)
        await new Promise((resolve) => setTimeout(resolve, 10));
    return [byId("rp-error").textContent, byId("rp-go").disabled, byId("rp-dismiss").disabled];
"""


def test_a_proposal_can_be_applied_again_after_a_lost_connection(
    js: Script, empty_page: Page
) -> None:
    empty_page.route("**/preemptions/7/", lambda route: route.fulfill(json={**PROPOSAL, "id": 7}))
    empty_page.route("**/preemptions/7/apply/", lambda route: route.abort())
    assert js(DIALOG) == ["The server did not answer: Try again.", False, False]


VICTIM = {"id": 1, "name": "etl", "project": "p", "priority": 0, "units": 1, "short_units": 1}
PREVIEW = {
    "outcome": "possible",
    "candidates": 1,
    "units": 1,
    "is_best": True,
    "overridden_limits": [],
    "basis": "b",
    "cost": {"jobs": 1, "broken_promises": 0, "lost_unit_seconds": 5},
}
VICTIMS = """
    document.body.innerHTML = `<dialog id="preempt-job"><p id="pj-summary"></p>
        <div id="pj-victims"></div><p id="pj-error"></p><button id="pj-keep"></button>
        <button id="pj-go"></button></dialog>`;
    const { openPreemption } = await load("preemption.js");
    await openPreemption("8");
    const cells = [...document.querySelectorAll("#pj-victims td:nth-child(6)")];
    return cells.map((one) => one.textContent);
"""


STARTED = """
    document.body.innerHTML = `<dialog id="preempt-job"><p id="pj-summary"></p>
        <div id="pj-victims"></div><p id="pj-error"></p><button id="pj-keep"></button>
        <button id="pj-go"></button></dialog>`;
    const { openPreemption } = await load("preemption.js");
    const byId = (id) => document.getElementById(id);
    await openPreemption("8");
    byId("pj-go").click();
    for (let i = 0; i < 100 && !byId("pj-go").hidden; i += 1)
        await new Promise((resolve) => setTimeout(resolve, 10));
    return [byId("pj-summary").textContent, byId("pj-error").hidden, byId("pj-go").hidden,
        byId("pj-keep").textContent];
"""


def test_a_job_that_started_meanwhile_is_named_once_without_a_button_that_stops_others(
    js: Script, empty_page: Page
) -> None:
    message = "The job is running. Only queued jobs can preempt others."
    possible = {**PREVIEW, "victims": []}
    answers = [{"outcome": "impossible", "message": message}, possible]
    empty_page.route("**/jobs/8/preemption/", lambda route: route.fulfill(json=answers.pop()))
    empty_page.route(
        "**/jobs/8/preemption/apply/",
        lambda route: route.fulfill(status=409, json={"title": "Conflict", "detail": message}),
    )
    assert js(STARTED) == [message, True, True, "Close"]


def test_a_victim_without_a_target_keeps_and_misses_none(js: Script, empty_page: Page) -> None:
    victims = [
        {**VICTIM, "lost_unit_seconds": 5, "breaks_promise": breaks, "promise": promise}
        for breaks, promise in ((False, "it has no target"), (True, "it may miss its deadline"))
    ]
    answer = {**PREVIEW, "victims": victims}
    empty_page.route("**/jobs/8/preemption/", lambda route: route.fulfill(json=answer))
    assert js(VICTIMS) == ["it has no target", "missed it may miss its deadline"]
