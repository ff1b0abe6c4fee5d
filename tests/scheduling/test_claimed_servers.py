"""A project keeps borrowers only from servers that its own waiting jobs can use."""

from typing import Any

import pytest

from apps.accounts.models import Project
from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import Server
from apps.inventory.services import import_cluster
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.selectors import quotas, read_copy
from apps.scheduling.selectors.quotas import standings
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.replay import replay
from apps.workloads.core.shapes import Needs, WaitsFor
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import SIZES, decide_again, state_and_reason, waiting, work

pytestmark = pytest.mark.django_db

NOW_S = 3000.0
ON_A, ON_J = {"platforms": ["A"]}, {"platforms": ["J"]}


@pytest.fixture(autouse=True)
def two_platforms(db: None) -> None:
    """A server of each of two platforms, with four units each."""
    factories.cluster(seen_cluster_s=NOW_S)
    kinds = [{"name": n, "cores": 4, "idle_watts": 50, "peak_watts": 200, **SIZES} for n in "JA"]
    servers = [{"name": n.lower(), "platform": n, "rack": f"r{n}"} for n in "JA"]
    import_cluster(parse_cluster({"name": "small", "platforms": kinds, "servers": servers}))
    read_copy()


def known_on_both() -> Application:
    application = factories.application()
    factories.profile(application, platforms=("J", "A"))
    return application


def project(name: str, guaranteed: int | None = None) -> Project:
    row = factories.project(name)
    row.guaranteed_units = guaranteed
    row.save()
    return row


def job(of: Application, owner: Project, units: int = 1, **values: Any) -> Job:
    fields = {"target": {"kind": "best_effort"}, "target_kind": "best_effort", "gang": True}
    size = {"units_requested": units, "input_bytes": 10**10, "submitted_s": NOW_S}
    return waiting(of, project=owner, **{**fields, **size, **values})


def servers_of(*jobs: Job) -> set[str]:
    ids = Allocation.objects.filter(job__in=jobs).values_list("server_id", flat=True)
    return set(Server.objects.filter(id__in=[*ids]).values_list("name", flat=True))


def claim_of_a_job_on_a(of: Application) -> tuple[Project, Job]:
    """Let a job of web wait for four units of A, of which another job holds two."""
    web, other = project("web", 4), project("other")
    job(of, other, 2, constraints=ON_A)
    work(make_agent("agent-1"))
    wide = job(of, web, 4, constraints=ON_A)
    work(make_agent("agent-1"))
    assert state_and_reason(wide) == ("queued", "NotEnoughFreeUnits")
    return web, wide


def test_borrowers_use_servers_that_the_claiming_job_cannot() -> None:
    of = known_on_both()
    claim_of_a_job_on_a(of)
    borrowers = [job(of, project("vision")) for _ in range(6)]
    decide_again(make_agent("agent-1"))
    placed = [each for each in borrowers if state_and_reason(each)[0] == "starting"]
    assert (len(placed), servers_of(*placed)) == (4, {"j"})
    decisions = Decision.objects.filter(job__in=placed)
    assert {replay(each.pk).verdict for each in decisions} == {ReplayVerdict.IDENTICAL}


def test_a_borrower_that_needs_claimed_servers_is_refused_with_their_units() -> None:
    of = known_on_both()
    claim_of_a_job_on_a(of)
    late = job(of, project("vision"), constraints=ON_A)
    decide_again(make_agent("agent-1"))
    assert state_and_reason(late) == ("queued", "QuotaExceeded")
    assert late.reason_message == (
        "project vision uses 0 units and 0 are guaranteed;"
        " other projects claim 4 units, and 2 are free on the servers that the job may use"
    )


def test_a_job_of_the_claiming_project_that_can_use_any_server_claims_any() -> None:
    of = known_on_both()
    web, _ = claim_of_a_job_on_a(of)
    job(of, web, 9, constraints=ON_J)  # more than the server has: it claims nothing
    decide_again(make_agent("agent-1"))
    (before,) = (each.needs for each in standings().values() if each.name == "web")
    assert before == frozenset({Needs(WaitsFor.UNITS, platforms=("A",))})
    job(of, web, 8)
    decide_again(make_agent("agent-1"))
    (after,) = (each.needs for each in standings().values() if each.name == "web")
    assert after == frozenset({Needs(WaitsFor.UNITS, platforms=("A",)), Needs(WaitsFor.UNITS)})
    late = job(of, project("vision"))
    decide_again(make_agent("agent-1"))
    assert state_and_reason(late) == ("queued", "QuotaExceeded")
    assert late.reason_message.endswith("other projects claim 4 units, and 0 are free")


def test_jobs_that_no_agent_has_evaluated_claim_servers_by_their_constraints() -> None:
    of, web = known_on_both(), project("web", 4)
    labelled = {**ON_A, "labels": {"disk": "fast"}}
    first = job(of, web, constraints=labelled, unit_memory_bytes=7)
    job(of, web)
    asked = Needs(WaitsFor.UNITS, platforms=("A",), labels=("disk=fast",), unit_memory_bytes=7)
    (each,) = standings().values()
    assert each.needs == frozenset({asked, Needs(WaitsFor.UNITS)})
    (rest,) = standings([first.id]).values()
    assert rest.needs == frozenset({Needs(WaitsFor.UNITS)})


def test_a_project_with_more_requests_than_are_read_claims_any_server() -> None:
    of, web = known_on_both(), project("web", 4)
    for _ in range(quotas.MAX_NEEDS + 1):
        job(of, web, constraints=ON_A)
    (each,) = standings().values()
    assert each.needs is None


def test_jobs_of_the_turn_count_by_the_platforms_of_their_size() -> None:
    """The profile of web's application knows A only, so that its new job cannot use J."""
    of, only_a = known_on_both(), factories.application()
    factories.profile(only_a, platforms=("A",))
    web = project("web", 6)
    wide = job(only_a, web, 6)
    borrower = job(of, project("vision"))
    work(make_agent("agent-1"))
    assert state_and_reason(wide)[0] == "queued"
    assert (state_and_reason(borrower)[0], servers_of(borrower)) == ("starting", {"j"})
