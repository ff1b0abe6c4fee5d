"""The Calibrate page as a person with a role gets it; its placements come through the REST API."""

import uuid

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.dashboard.selectors import calibrate
from tests import factories
from tests.dashboard.fronts import front, version

pytestmark = pytest.mark.django_db


def page(client: Client, query: str = "") -> str:
    return client.get(f"/calibrate/{query}").content.decode()


def test_without_a_front_it_says_why_one_is_needed_and_offers_to_search(
    as_operator: Client,
) -> None:
    factories.server()
    text = page(as_operator)
    assert "There is no front of placements yet" in text
    assert "Search a front of the running cluster…" in text
    assert "data-front=" not in text


def test_without_servers_it_says_what_comes_first(as_operator: Client) -> None:
    text = page(as_operator)
    assert "First the cluster needs servers and jobs" in text
    assert "Search a front" not in text


def test_a_viewer_sees_it_all_and_is_told_which_role_saves(as_viewer: Client) -> None:
    factories.server()
    held = version(front())
    text = page(as_viewer)
    assert f'data-front="{held.front_id}"' in text
    assert "Previews, saving, activating and new fronts need the role operator" in text
    assert "data-may-change" not in text
    assert "New front…" not in text


def test_an_operator_may_search_and_activate(as_operator: Client) -> None:
    factories.server(rack="rack-7")
    version(front())
    text = page(as_operator)
    assert "data-may-change" in text
    assert "New front…" in text
    assert '<option value="rack-7">Start with rack-7 only</option>' in text


def test_it_opens_the_newest_front_that_holds_something(
    as_operator: Client, operator: User
) -> None:
    factories.server()
    found = version(front(by=operator)).front
    still_empty = front(by=operator)
    text = page(as_operator)
    assert f'data-front="{found.id}"' in text
    assert str(still_empty) in text


def test_the_address_chooses_the_front(as_operator: Client, operator: User) -> None:
    factories.server()
    first = version(front(by=operator)).front
    version(front(by=operator))
    assert f'data-front="{first.id}"' in page(as_operator, f"?front={first.id}")


def test_a_front_is_opened_by_its_name(as_operator: Client, operator: User) -> None:
    factories.server()
    first = version(front(by=operator)).front
    version(front(by=operator))
    assert f'data-front="{first.id}"' in page(as_operator, f"?front={first}")


def test_a_front_older_than_those_listed_is_opened_and_listed_too(
    as_operator: Client, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "MOST_LISTED", 2)
    factories.server()
    oldest = version(front(by=operator)).front
    version(front(by=operator))
    version(front(by=operator))
    text = page(as_operator, f"?front={oldest.id}")
    assert f'data-front="{oldest.id}"' in text
    assert f'<option value="{oldest.id}" selected>{oldest}</option>' in text
    assert str(oldest) not in page(as_operator)


def test_instead_of_a_front_that_is_gone_the_newest_is_opened_and_that_is_said(
    as_operator: Client,
) -> None:
    factories.server()
    newest = version(front()).front
    gone = uuid.uuid4()
    answer = as_operator.get(f"/calibrate/?front={gone}")
    text = answer.content.decode()
    assert answer.status_code == 404
    assert f"There is no front {gone}" in text
    assert f"This is {newest} instead." in text
    assert f'data-front="{newest.id}"' in text


def test_where_the_only_front_is_gone_it_offers_to_search(as_operator: Client) -> None:
    factories.server()
    answer = as_operator.get("/calibrate/?front=f-0001")
    text = answer.content.decode()
    assert answer.status_code == 404
    assert "There is no front f-0001" in text
    assert "Search a front of the running cluster…" in text


def test_moments_to_search_at_are_those_recorded(as_operator: Client) -> None:
    factories.server()
    factories.frame(600.0, [0.5])
    factories.frame(1200.0, [0.5])
    text = page(as_operator)
    assert 'min="600" max="1200"' in text


def test_without_recordings_only_the_present_is_offered(as_operator: Client) -> None:
    factories.server()
    assert "What ran at a moment" not in page(as_operator)
