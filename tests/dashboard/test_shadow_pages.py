"""The pages of shadow policies."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.core.roles import Role
from apps.common.core.ids import uuid7
from apps.dashboard.core.shadow_text import finding, groups, regret_text, share_text
from apps.dashboard.selectors.shadows import try_query
from apps.scheduling.core.records.shadow_summary import Estimate, Summary
from apps.scheduling.models import Decision, Shadow
from tests import factories
from tests.scheduling import shadow_rows

NONE = Estimate(None, None, None)
ONE = Estimate(1.0, 0.96, 1.0)


def summary_of(
    *,
    decisions: int = 100,
    servers: Estimate = ONE,
    regret: Estimate = NONE,
    units: Estimate = ONE,
) -> Summary:
    return Summary(
        decisions, decisions, 0, 0, units, servers, ONE, regret, regret, Estimate(0.0, None, None)
    )


HALF = Estimate(0.5, 0.41, 0.59)


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (summary_of(decisions=0, servers=NONE), "No decision has been compared yet"),
        (summary_of(), "random chose the same units in all 100 decisions"),
        (
            summary_of(units=HALF, servers=HALF, regret=Estimate(0.031, 0.02, 0.042)),
            "random chose the same servers in 50 % of 100 decisions; it is predicted to be worse "
            "by 3.10 %",
        ),
        (
            summary_of(units=HALF, servers=HALF, regret=Estimate(-0.031, -0.042, -0.02)),
            "random chose the same servers in 50 % of 100 decisions; it is predicted to be better "
            "by 3.10 %",
        ),
        (
            summary_of(units=HALF, servers=HALF, regret=Estimate(0.031, -0.02, 0.042)),
            "random chose the same servers in 50 % of 100 decisions; it is not predicted to be "
            "better or worse",
        ),
        (
            summary_of(units=HALF, servers=HALF, regret=Estimate(0.031, None, None)),
            "random chose the same servers in 50 % of 100 decisions; too few batches to tell "
            "whether it is better or worse",
        ),
        (
            summary_of(units=HALF, servers=HALF),
            "random chose the same servers in 50 % of 100 decisions; no job was placed by both",
        ),
    ],
    ids=["nothing", "same", "worse", "better", "neither", "few", "refusals"],
)
def test_the_finding_is_one_sentence(total: Summary, text: str) -> None:
    assert finding("random", total) == text


def test_numbers_have_a_unit_and_an_interval() -> None:
    assert share_text(HALF) == ("50.0 %", "[41.0, 59.0]")
    assert share_text(NONE) == ("–", "")
    assert regret_text(Estimate(0.031, -0.02, 0.042)) == ("+3.10 %", "[−2.00, +4.20]")
    assert regret_text(Estimate(-0.031, None, None)) == ("−3.10 %", "")
    assert regret_text(NONE) == ("–", "")


def test_a_platform_without_a_name_is_that_of_refusals() -> None:
    parts = {"kind": [], "policy": [], "platform": [("J", summary_of()), ("", summary_of())]}
    names = [row.name for group in groups(summary_of(), parts) for row in group.rows]
    assert names == ["All decisions", "J", "refused"]


# ---- pages ----


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    factories.cluster()
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def decided(name: str) -> Decision:
    return factories.decision(factories.job(name), batch_id=uuid7(), position=0)


def test_without_shadows_the_page_says_what_they_are_for(operator: Client) -> None:
    text = operator.get("/shadows/").content.decode()
    assert "No shadow policy yet" in text
    assert "No shadow policy is running" in text
    assert "at most 10 % of one core" in text


def test_the_list_shows_state_and_counters(operator: Client) -> None:
    shadow_rows.shadow("random", seen=1200, decided=300, dropped=7)
    shadow_rows.shadow(
        "expected", parameters={"spread": 0.0}, ended_at=timezone.now(), end="stopped"
    )
    text = operator.get("/shadows/").content.decode()
    assert "1 of at most 2 running" in text
    assert "1,200" in text
    assert "spread 0" in text
    assert ">ended<" in text


@pytest.mark.parametrize("path", ["/shadows/", "/shadows/{}/"])
def test_a_small_share_has_a_decimal(path: str, operator: Client) -> None:
    shadow = shadow_rows.shadow(share=0.004)
    assert ">0.4 %<" in operator.get(path.format(shadow.pk)).content.decode()


def test_a_shadow_is_shown_with_its_finding_and_its_most_different_decisions(
    operator: Client,
) -> None:
    shadow = shadow_rows.shadow("expected", parameters={"spread": 0.0}, seen=40, decided=3)
    near, far, gone = decided("near-job"), decided("far-job"), decided("gone-job")
    shadow_rows.shadow_decision(shadow, near, job=0.0, neighbours=0.0, same_servers=True)
    shadow_rows.shadow_decision(shadow, far, job=0.3, neighbours=-0.1)
    shadow_rows.shadow_decision(shadow, gone, job=0.1, neighbours=0.0)
    gone.delete()
    response = operator.get(f"/shadows/{shadow.pk}/")
    text = response.content.decode()
    assert "expected chose the same servers in 33 % of 3 decisions" in text
    assert [each.job for each in response.context["different"]] == ["far-job", ""]
    assert "near-job" not in text
    assert "no longer stored" in text
    assert "+20.00 %" in text
    assert "job +30.00 %, neighbours −10.00 %" in text
    assert f'href="/decisions/{far.pk}/?policy=expected&amp;weights=spread%3D0#again"' in text
    assert f"/decisions/{gone.pk}/" not in text


def test_an_ended_shadow_says_why(operator: Client) -> None:
    shadow = shadow_rows.shadow(ended_at=timezone.now() - timedelta(hours=2), end="full")
    text = operator.get(f"/shadows/{shadow.pk}/").content.decode()
    assert "it has compared the largest number of decisions" in text
    assert "data-shadow" not in text
    assert "The shadow ended before an agent made a decision in its sample" in text


def test_a_shadow_whose_policy_failed_shows_the_error(operator: Client) -> None:
    error = "the policy theirs failed with KeyError: 'rack-7'"
    shadow = shadow_rows.shadow("theirs", ended_at=timezone.now(), end="failed", error=error)
    text = operator.get(f"/shadows/{shadow.pk}/").content.decode()
    assert "Reason: its policy failed. The error: the policy theirs failed" in text


def test_a_decision_is_tried_as_the_address_says(operator: Client) -> None:
    decision = decided("a-job")
    shadow = Shadow(policy="expected", parameters={"spread": 0.0, "width": 0.05})
    text = operator.get(f"/decisions/{decision.pk}/?{try_query(shadow)}").content.decode()
    assert "<option selected>expected</option>" in text
    assert 'value="spread=0 width=0.05"' in text
    assert "data-try" in text
    for query in ("", "?policy=fifo"):
        assert "data-try" not in operator.get(f"/decisions/{decision.pk}/{query}").content.decode()


def test_the_decisions_lead_operators_to_shadows(operator: Client) -> None:
    assert 'href="/shadows/"' in operator.get("/decisions/").content.decode()
    operator.force_login(factories.user("vera", role=Role.VIEWER))
    assert 'href="/shadows/"' not in operator.get("/decisions/").content.decode()
    assert operator.get("/shadows/").status_code == 403
    assert operator.get("/shadows/00000000-0000-7000-8000-000000000000/").status_code == 403
