"""The page of a decision: repeat it, decide it again, and find what would flip it."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from apps.scheduling.models import Decision
from tests.browser.conftest import Visitor

PREDICTION = {"performance": 0.81, "speed": 0.9, "own": 0.9, "neighbours": 0.97}
BEFORE: dict[str, Any] = {
    "outcome": "placed",
    "policy": "expected",
    "servers": [{"server": "s-01", "platform": "A", "units": 2}],
    "prediction": PREDICTION,
    "losers": {"jobs": [], "others": 0, "largest_other": 0.0},
}
AFTER: dict[str, Any] = {
    **BEFORE,
    "policy": "slot_rr",
    "servers": [{"server": "s-02", "platform": "B", "units": 2}],
    "losers": {
        "jobs": [{"job": "1", "name": "victim", "server": "s-02", "loss": 0.071}],
        "others": 2,
        "largest_other": 0.03,
    },
}
ANSWERS: dict[str, Any] = {
    "replay": {
        "verdict": "different",
        "detail": "",
        "differences": [{"field": "eligible", "stored": 812, "now": 811}],
        "changed": [{"field": "policy_version", "stored": 1, "now": 2}],
        "jobs": 3,
        "position": 1,
    },
    "counterfactuals": {"is_same": False, "before": BEFORE, "after": AFTER},
    "flips": {
        "server": "s-02",
        "is_chosen": False,
        "flips": [{"change": {"without_servers": ["s-01"]}, "effect": "if s-01 had no free unit"}],
    },
}


@pytest.fixture
def asked(visitor: Visitor) -> Iterator[list[tuple[str, Any]]]:
    """Answer the three routes; yields (route, body) of each request."""
    requests: list[tuple[str, Any]] = []

    def answer(route: Route) -> None:
        name = route.request.url.rstrip("/").rpartition("/")[2]
        sent = route.request.post_data
        requests.append((name, json.loads(sent) if sent else None))
        route.fulfill(json=ANSWERS[name])

    pattern = "**/api/v1/decisions/*/*/"
    visitor.page.route(pattern, answer)
    yield requests
    visitor.page.unroute(pattern)


def decision_page(visitor: Visitor) -> Page:
    """The page of a decision whose request is stored."""
    job = visitor.site.world.running
    decision = Decision.objects.filter(job=job).latest("at")
    Decision.objects.filter(pk=decision.pk).update(batch_id=uuid4(), position=0)
    return visitor.visit(f"/decisions/{decision.pk}/")


def test_a_replay_shows_each_field_that_differs(
    visitor: Visitor, asked: list[tuple[str, Any]]
) -> None:
    page = decision_page(visitor)
    page.get_by_role("button", name="Replay").click()
    answer = page.locator("#again-answer")
    expect(answer).to_contain_text("1 field differs")
    expect(answer.get_by_role("row").nth(1)).to_contain_text("eligible")
    expect(answer).to_contain_text("Job 2 of 3 decided together. policy_version was 1, is 2")
    assert asked == [("replay", {})]
    assert visitor.serious_findings() == []
    assert visitor.errors == []


def test_a_decision_about_one_job_was_decided_alone(
    visitor: Visitor, asked: list[tuple[str, Any]]
) -> None:
    page = decision_page(visitor)
    alone = {**ANSWERS["replay"], "jobs": 1, "position": 0}
    page.route("**/replay/", lambda route: route.fulfill(json=alone))
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#again-answer")).to_contain_text("Decided alone.")


def test_a_decision_is_tried_with_changes(visitor: Visitor, asked: list[tuple[str, Any]]) -> None:
    page = decision_page(visitor)
    page.get_by_label("Policy", exact=True).select_option("slot_rr")
    page.get_by_label("R, candidates per unit").fill("4")
    page.get_by_label("Weights", exact=True).fill("spread=0 neighbours=1.5")
    page.get_by_label("Without servers").fill("s-01, s-03")
    page.locator("#again-try").click()
    answer = page.locator("#again-answer")
    expect(answer).to_contain_text("Other units would be chosen")
    expect(answer).to_contain_text("2 on s-02 (B)")
    expect(answer).to_contain_text("victim 7.1 %, 2 of other projects, at most 3.0 %")
    assert asked == [
        (
            "counterfactuals",
            {
                "policy": "slot_rr",
                "sample_size": 4,
                "without_servers": ["s-01", "s-03"],
                "parameters": {"spread": 0, "neighbours": 1.5},
            },
        )
    ]
    assert visitor.serious_findings() == []


REFUSED: dict[str, Any] = {
    **BEFORE,
    "outcome": "refused",
    "servers": [],
    "prediction": None,
    "reason_text": "All units that the job may use are busy.",
    "detail": "",
}


@pytest.mark.parametrize(
    ("is_same", "before", "after", "title"),
    [
        (True, BEFORE, BEFORE, "The same units would be chosen"),
        (False, BEFORE, BEFORE, "Other units of the same servers would be chosen"),
        (False, BEFORE, AFTER, "Other units would be chosen"),
        (False, REFUSED, BEFORE, "The job would be placed instead of refused"),
        (False, BEFORE, REFUSED, "The job would be refused instead of placed"),
        (True, REFUSED, REFUSED, "The job would be refused as before"),
        (False, REFUSED, REFUSED, "The job would be refused for another reason"),
    ],
)
def test_the_title_names_what_differs(
    visitor: Visitor, is_same: bool, before: dict[str, Any], after: dict[str, Any], title: str
) -> None:
    page = decision_page(visitor)
    answer = {"is_same": is_same, "before": before, "after": after}
    page.route("**/counterfactuals/", lambda route: route.fulfill(json=answer))
    page.locator("#again-try").click()
    expect(page.locator("#again-answer h3")).to_have_text(title)


def test_a_wrong_weight_is_named_at_its_field_and_not_sent(
    visitor: Visitor, asked: list[tuple[str, Any]]
) -> None:
    page = decision_page(visitor)
    page.get_by_label("Weights", exact=True).fill("spread=0 nonsense")
    page.locator("#again-try").click()
    message = page.get_by_label("Weights", exact=True).evaluate(
        "(field) => field.validationMessage"
    )
    assert message == 'Enter names and numbers such as "spread=0 neighbours=1", not "nonsense".'
    assert asked == []
    page.get_by_label("Weights", exact=True).fill("spread=0")
    page.locator("#again-try").click()
    expect(page.locator("#again-answer")).to_contain_text("Other units would be chosen")


def test_a_refusal_is_told_in_words_that_fit_in_place_of_an_earlier_answer(
    visitor: Visitor, asked: list[tuple[str, Any]]
) -> None:
    page = decision_page(visitor)
    answer = page.locator("#again-answer")
    page.get_by_role("button", name="Replay").click()
    expect(answer).to_contain_text("1 field differs")
    held: list[Route] = []
    page.route("**/counterfactuals/", lambda route: held.append(route))  # noqa: PLW0108 - a builtin
    page.locator("#again-try").click()
    expect(answer).to_be_empty()
    refused = {**AFTER, "outcome": "refused", "servers": [], "reason": "NoFreeUnit"}
    victims = [{"job": str(i), "name": f"victim-{i}-" * 9, "loss": 0.07} for i in range(5)]
    refused |= {"losers": {"jobs": victims, "others": 0, "largest_other": 0.0}}
    refused |= {"reason_text": "All units that the job may use are busy.", "detail": "wait"}
    held[0].fulfill(json={"is_same": False, "before": BEFORE, "after": refused})
    expect(answer).to_contain_text("All units that the job may use are busy. Wait.")
    table = answer.locator("table")
    assert table.evaluate("(one) => one.scrollWidth <= one.parentNode.clientWidth")


def test_a_flip_is_tried(visitor: Visitor, asked: list[tuple[str, Any]]) -> None:
    page = decision_page(visitor)
    page.get_by_role("button", name="What would flip it").click()
    expect(page.locator("#again-answer")).to_contain_text("s-02 would have been chosen")
    page.locator("#again-answer").get_by_role("button", name="Try").click()
    expect(page.locator("#again-answer")).to_contain_text("2 on s-01 (A)")
    assert asked[1] == ("counterfactuals", {"without_servers": ["s-01"]})


def test_a_decision_without_its_request_offers_nothing(visitor: Visitor) -> None:
    page = decision_page(visitor)
    expect(page.locator("#again")).to_be_visible()
    Decision.objects.filter(job=visitor.site.world.running).update(batch_id=None)
    page.reload()
    expect(page.locator("#again")).to_have_count(0)
