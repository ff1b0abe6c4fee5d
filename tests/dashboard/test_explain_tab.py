"""The Explain tab of a job: its dip, suspects and what would help."""

import json
import re
from html import unescape

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.dashboard.selectors import misses
from apps.execution.models import JobSample
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Job
from tests import factories
from tests.execution.miss_world import DIP_S, Missed, missed

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _new_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's copy of the cluster outlives the tests."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())


@pytest.fixture
def world() -> Missed:
    return missed()


def text_of(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_a_job_below_its_target_opens_at_its_dip(as_operator: Client, world: Missed) -> None:
    page = text_of(as_operator, f"/jobs/{world.job.id}/")
    assert '<a href="?tab=explain" aria-current="page">Explain</a>' in page
    assert "most likely cause: shuffle-88 on srv-0212" in page
    assert "Migrate 2 units from srv-0212 to srv-0317" in page
    assert re.search(r'<span class="pnum">1</span><b title="shuffle-88 on srv-0212">', page)


def test_a_job_that_meets_its_target_opens_at_its_decision(
    as_operator: Client, world: Missed
) -> None:
    Job.objects.filter(id=world.job.id).update(attainment=1.1)
    page = text_of(as_operator, f"/jobs/{world.job.id}/")
    assert '<a href="?tab=why" aria-current="page">Why</a>' in page


def test_the_tab_of_a_job_without_a_dip_says_so(as_operator: Client, world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gte=DIP_S).delete()
    page = text_of(as_operator, f"/jobs/{world.job.id}/?tab=explain")
    assert "The job has met its target in all its reports." in page
    assert "data-remedy" not in page


def test_a_remedy_has_a_button_where_the_api_has_a_request(
    as_operator: Client, world: Missed
) -> None:
    page = text_of(as_operator, f"/jobs/{world.job.id}/?tab=explain")
    assert page.count("data-remedy=") == 1
    assert page.count("data-migrate=") == 1
    assert "Migrate…</button>" in page
    assert 'id="migrate-job"' in page
    assert "Relax target</button>" in page
    assert "<b>Relax the target to 820 M instr./s</b>" in page


def test_a_viewer_gets_no_buttons(client: Client, world: Missed) -> None:
    viewer = factories.user("vic", role=Role.VIEWER)
    Membership.objects.create(user=viewer, project=world.job.project, role=Role.VIEWER.value)
    client.force_login(viewer)
    page = text_of(client, f"/jobs/{world.job.id}/")
    assert "most likely cause" in page
    assert "data-remedy" not in page
    assert "data-migrate" not in page
    assert "?again=" not in page


def test_a_submitter_is_told_who_may_migrate(client: Client, world: Missed) -> None:
    submitter = factories.user("sue", role=Role.SUBMITTER)
    Membership.objects.create(user=submitter, project=world.job.project, role=Role.SUBMITTER.value)
    client.force_login(submitter)
    page = text_of(client, f"/jobs/{world.job.id}/")
    assert "data-migrate" not in page
    assert "needs the role operator" in page
    assert re.search(rf'href="/submit/\?again={world.job.id}&amp;units=\d+"', page)


def test_more_units_lead_to_the_submit_page(as_operator: Client, world: Missed) -> None:
    page = text_of(as_operator, f"/submit/?again={world.job.id}&units=5")
    document = json.loads(unescape(re.search(r'data-again="([^"]+)"', page)[1]))  # type: ignore[index]  # it is there
    assert document["spec"]["units"] == 5
    assert document["spec"]["target"] == world.job.target
    assert "name" not in document["metadata"]
    assert "That job keeps running until you cancel it." in page


@pytest.mark.parametrize("units", ["", "0", "-3", "many", "1000000"])
def test_a_size_that_is_none_leaves_that_of_the_job(
    as_operator: Client, world: Missed, units: str
) -> None:
    page = text_of(as_operator, f"/submit/?again={world.job.id}&units={units}")
    assert "data-again=" in page
    assert f"units&quot;: {units}" not in page or not units


def test_the_texts_have_the_formats_of_the_page(as_operator: Client, world: Missed) -> None:
    page = text_of(as_operator, f"/jobs/{world.job.id}/?tab=explain")
    side = page[page.index('id="explain-side"') :]
    assert re.search(r"\(\d+ % sure\)", side)
    assert not re.search(r">[^<]*\d%[^<]*<", side)
    assert not re.search(r"Relax the target to [\d,]{4,} s", side)


def test_a_job_of_another_project_is_not_submitted_again(client: Client) -> None:
    world = missed(project=factories.project("theirs"))
    client.force_login(factories.user("sue", role=Role.SUBMITTER))
    assert client.get(f"/submit/?again={world.job.id}").status_code == 404
    assert client.get("/submit/?again=nothing").status_code == 404


def test_a_neighbour_of_another_project_has_no_name_on_page_and_figures(client: Client) -> None:
    world = missed(project=factories.project("mine"), hidden=factories.project("theirs"))
    viewer = factories.user("vic", role=Role.VIEWER)
    Membership.objects.create(user=viewer, project=world.job.project, role=Role.VIEWER.value)
    client.force_login(viewer)
    for address in (
        f"/jobs/{world.job.id}/?tab=explain",
        f"/figures/dip/?job={world.job.id}",
        f"/figures/dip-pressure/?job={world.job.id}",
    ):
        text = text_of(client, address)
        assert world.neighbour.name not in text, address
        assert str(world.neighbour.id) not in text, address
    assert "a job of another project" in text_of(client, f"/figures/dip/?job={world.job.id}")


def test_the_figures_show_the_dip_and_its_neighbours(world: Missed) -> None:
    visible = Job.objects.all()
    data = misses.timeline(str(world.job.id), visible, at="")
    assert data.dip is not None
    assert data.dip[0] == DIP_S
    assert [(lane.rank, lane.name, lane.server) for lane in data.lanes] == [
        (1, "shuffle-88", "srv-0212")
    ]
    pressure = misses.pressure(str(world.job.id), visible, at="")
    assert pressure.crossed.tolist() == [i == 3 for i in range(10)]


def test_several_dips_are_listed_and_open_by_their_time(
    as_operator: Client, world: Missed
) -> None:
    JobSample.objects.filter(cluster_s__in=[6100.0, 6110.0, 6120.0]).update(attainment=0.9)
    page = text_of(as_operator, f"/jobs/{world.job.id}/?tab=explain")
    assert "2 dips" in page
    assert 'href="?tab=explain&amp;at=6100.000"' in page
    earlier = text_of(as_operator, f"/jobs/{world.job.id}/?tab=explain&at=6100")
    assert "The dip is over; nothing is needed." in earlier


def test_the_link_of_a_dip_opens_it_whatever_its_time(world: Missed) -> None:
    JobSample.objects.filter(cluster_s=DIP_S).update(cluster_s=DIP_S + 0.00041)
    (row,) = misses.explained(world.job, Job.objects.all(), at="").dips
    at = row.query.partition("at=")[2]
    assert misses.explained(world.job, Job.objects.all(), at=at).has_dip


def test_the_figures_of_a_page_without_a_time_follow_the_latest_dip(world: Missed) -> None:
    visible = Job.objects.all()
    assert misses.explained(world.job, visible, at="").at == ""
    assert misses.explained(world.job, visible, at="6700").at == "6700"


@pytest.mark.parametrize("at", ["", "soon", "nan", "inf"])
def test_a_time_that_names_no_moment_is_ignored(at: str) -> None:
    assert misses.read_at(at) is None
