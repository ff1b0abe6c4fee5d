"""Pages that do not exist or are not allowed offer ways on."""

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from tests import factories

pytestmark = pytest.mark.django_db


def lost(client: Client, path: str, status: int = 404) -> str:
    response = client.get(path)
    assert response.status_code == status
    return response.content.decode()


def test_similar_names_of_servers_are_offered(as_operator: Client) -> None:
    for name in ("srv-0212", "srv-0213", "other"):
        factories.server(name)
    page = lost(as_operator, "/servers/srv-0214/")
    assert '<a href="/servers/srv-0212/">srv-0212</a>' in page
    assert '<a href="/servers/srv-0213/">srv-0213</a>' in page
    assert "/servers/other/" not in page


def test_similar_names_of_applications_are_offered(as_operator: Client) -> None:
    factories.application("web/search")
    page = lost(as_operator, "/applications/web/serch/")
    assert '<a href="/applications/web/search/">web/search</a>' in page


def test_a_mistyped_address_leads_to_its_list_and_its_object(as_operator: Client) -> None:
    factories.server("srv-0212")
    page = lost(as_operator, "/server/srv-0212/")
    assert '<a href="/servers/srv-0212/">srv-0212</a>' in page
    assert '<a class="btn" href="/map/">Cluster map</a>' in page


@pytest.mark.parametrize(
    "path", ["/nowhere/", "/jobs/nothing/", "/jobs/8d1f7a52-3c1b-4c6a-9a55-0d5b6f1a2e90/"]
)
def test_lists_a_search_and_the_navigation_are_offered(as_operator: Client, path: str) -> None:
    page = lost(as_operator, path)
    assert '<a class="btn" href="/jobs/">Jobs</a>' in page
    assert 'action="/go/"' in page
    assert 'aria-label="Main"' in page


def test_the_routes_are_not_listed(as_operator: Client) -> None:
    assert "URLResolver" not in lost(as_operator, "/nowhere/")


def test_names_of_other_projects_are_not_offered(client: Client) -> None:
    factories.cluster()
    vic = factories.user("vic", role=Role.VIEWER)
    Membership.objects.create(user=vic, project=factories.project("mine-1"), role="viewer")
    factories.project("mine-2")
    hidden = factories.job("mine-3", project=factories.project("mine-2"))
    client.force_login(vic)
    page = lost(client, "/projects/mine-0/")
    assert "mine-1" in page
    assert "mine-2" not in page
    assert f"/jobs/{hidden.id}/" not in lost(client, "/jobs/mine-3/")


def test_a_forbidden_page_names_the_roles_and_leads_to_lists(as_viewer: Client) -> None:
    page = lost(as_viewer, "/users/", 403)
    assert "This page needs the role admin." in page
    assert "Your role is viewer." in page
    assert '<a class="btn" href="/jobs/">Jobs</a>' in page


def test_anonymous_callers_get_no_names(client: Client) -> None:
    factories.server("srv-0212")
    page = lost(client, "/server/srv-0212/")
    assert "Page not found" in page
    assert "/servers/srv-0212/" not in page


def test_a_figure_that_does_not_exist_costs_no_search(as_operator: Client) -> None:
    assert 'action="/go/"' not in lost(as_operator, "/figures/nothing/")
