"""The Calibrate page by role; its placements come through the REST API."""

import uuid

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.dashboard.selectors import calibrate
from tests import factories
from tests.dashboard.fronts import front, version

pytestmark = pytest.mark.django_db


def page(client: Client, query: str = "") -> str:
    return client.get(f"/calibrate/{query}").content.decode()


def test_without_a_front_the_page_explains_fronts_and_offers_a_search(
    as_operator: Client,
) -> None:
    factories.server()
    text = page(as_operator)
    assert "No front of placements yet" in text
    assert "Search for a front…" in text
    assert "data-front=" not in text


def test_without_servers_the_page_asks_for_servers(as_operator: Client) -> None:
    text = page(as_operator)
    assert "A front needs servers and jobs" in text
    assert "Search a front" not in text


def test_a_viewer_sees_the_page_and_the_role_needed_to_save(as_viewer: Client) -> None:
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


def test_the_newest_front_with_a_version_is_opened(as_operator: Client, operator: User) -> None:
    factories.server()
    other_front = version(front(by=operator)).front
    still_empty = front(by=operator)
    text = page(as_operator)
    assert f'data-front="{other_front.id}"' in text
    assert str(still_empty) in text


def test_the_address_selects_the_front(as_operator: Client, operator: User) -> None:
    factories.server()
    first = version(front(by=operator)).front
    version(front(by=operator))
    assert f'data-front="{first.id}"' in page(as_operator, f"?front={first.id}")


def test_a_front_is_opened_by_its_name(as_operator: Client, operator: User) -> None:
    factories.server()
    first = version(front(by=operator)).front
    version(front(by=operator))
    assert f'data-front="{first.id}"' in page(as_operator, f"?front={first}")


def test_a_requested_old_front_is_opened_and_listed(
    as_operator: Client, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "MAX_LISTED", 2)
    factories.server()
    oldest = version(front(by=operator)).front
    version(front(by=operator))
    version(front(by=operator))
    text = page(as_operator, f"?front={oldest.id}")
    assert f'data-front="{oldest.id}"' in text
    assert f'<option value="{oldest.id}" selected>{oldest}</option>' in text
    assert str(oldest) not in page(as_operator)


def test_a_missing_front_opens_the_newest_one_with_a_notice(
    as_operator: Client,
) -> None:
    factories.server()
    newest = version(front()).front
    unknown = uuid.uuid4()
    answer = as_operator.get(f"/calibrate/?front={unknown}")
    text = answer.content.decode()
    assert answer.status_code == 404
    assert f"Front {unknown} does not exist" in text
    assert f"Showing {newest}." in text
    assert f'data-front="{newest.id}"' in text


def test_a_missing_only_front_offers_a_search(as_operator: Client) -> None:
    factories.server()
    answer = as_operator.get("/calibrate/?front=f-0001")
    text = answer.content.decode()
    assert answer.status_code == 404
    assert "Front f-0001 does not exist" in text
    assert "Search for a front…" in text


def test_search_times_cover_the_recorded_span(as_operator: Client) -> None:
    factories.server()
    factories.frame(600.0, [0.5], at=timezone.now())
    factories.frame(1200.0, [0.5], at=timezone.now())
    text = page(as_operator)
    assert 'min="600" max="1200"' in text


def test_without_recordings_only_the_current_workload_is_offered(as_operator: Client) -> None:
    factories.server()
    assert "Recorded, at a time between" not in page(as_operator)
