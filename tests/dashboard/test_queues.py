"""The Queues page, the queue in REST, and start estimates on the page of a job."""

import re
from typing import Any

import pytest
from django.test import Client, override_settings

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.dashboard.core.labels import start_text
from apps.dashboard.core.queue_rows import QueueFilter, queue_page
from apps.dashboard.selectors.job_facts import job_header
from apps.inventory.models import Cluster, Server
from apps.scheduling.core.admission.types import QueueState
from apps.scheduling.models import AdmissionState, Reservation, StartEstimate
from apps.scheduling.selectors.waits import start_scores, waiting_jobs
from apps.workloads.models import Batch, Job, WaitingShape
from tests import factories
from tests.scheduling.shapes import shaped

pytestmark = pytest.mark.django_db
NOW_S = 7200.0


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def estimated(name: str, p50_s: float | None, p90_s: float | None, **values: Any) -> Job:
    """A waiting job with an estimate, in seconds from now."""
    job = shaped(name=name, units_requested=2, submitted_s=NOW_S - 600.0, **values)
    estimate(job, p50_s, p90_s)
    return job


def estimate(job: Job, p50_s: float | None, p90_s: float | None, **values: Any) -> None:
    ends = [None if at is None else NOW_S + at for at in (p50_s, p90_s)]
    fields = {"kind": "ips, 1 unit", "made_s": NOW_S, "ahead": 3, "p50_s": ends[0]}
    StartEstimate.objects.create(
        job_id=job.id, **{**fields, "p5_s": NOW_S, "p90_s": ends[1], "p95_s": ends[1], **values}
    )


def started(kind: str, wait_s: float, *, p50_s: float, p90_s: float, **values: Any) -> Job:
    """A job that started some time after its estimate."""
    job = factories.job(state="running", **values)
    for at_s in (0.0, 5.0):  # the second is not the first estimate
        estimate(job, p50_s + at_s, p90_s, kind=kind, placed_s=NOW_S + wait_s, is_open=False)
    return job


def page(client: Client, query: str = "") -> str:
    return client.get(f"/queues/{query}").content.decode()


def test_waiting_jobs_are_listed_with_a_reason_and_a_predicted_start(
    as_operator: Client,
) -> None:
    estimated("later", 300.0, 480.0)
    estimated("sooner", 60.0, 120.0, priority=5)
    shown = page(as_operator)
    assert shown.index("sooner: starts") < shown.index("later: starts")
    assert '<b>5 min</b> <span class="iv">to 8 min</span>' in shown
    assert "no free unit" in shown
    assert "after 3 jobs" in shown
    assert "half start within <b>5 min</b> of cluster time" in shown
    assert "later: starts in 5 min, by 8 min with 90 %" in shown


def test_a_queue_counts_the_jobs_without_a_prediction(as_operator: Client) -> None:
    estimated("sooner", 60.0, 120.0)
    estimated("unknown", None, None)
    estimated("other", None, None)
    assert "<b>2</b> of 3 have no prediction yet" in page(as_operator)
    StartEstimate.objects.update(p50_s=None)
    assert "their start cannot be predicted yet" in page(as_operator)


def test_a_job_that_no_server_matches_has_no_start_and_no_wait(as_operator: Client) -> None:
    estimated("soon", 60.0, 120.0)
    lost = estimated("lost", None, None)
    reason = "NoMatchingServer"
    Job.objects.filter(pk=lost.pk).update(queued_s=0.0, submitted_s=0.0, reason_code=reason)
    shown = page(as_operator)
    assert "have no prediction" not in shown
    assert "has no prediction" not in shown
    assert "<b>1</b> of them matches no server and starts only if the request or" in shown
    assert "<b>only if its request or the cluster changes</b>" in shown
    oldest = shown[shown.index("Oldest wait") :]
    assert f'<a href="/jobs/{lost.pk}/">' not in oldest[: oldest.index("</div>")]
    lost.refresh_from_db()
    assert job_header(lost, now_s=NOW_S).start == "only if its request or the cluster changes"


def test_jobs_of_equal_requests_are_one_row_that_lists_them(as_operator: Client) -> None:
    job = estimated("one", 60.0, 120.0)
    other = factories.job("zz-second", application=job.application, submitted_s=NOW_S)
    Job.objects.filter(id=other.id).update(shape=job.shape, reason_code="NoFreeUnit")
    shown = page(as_operator)
    assert "× 2" in shown
    assert "zz-second" not in shown
    opened = page(as_operator, f"?shape={job.shape_id}")
    assert "zz-second" in opened
    assert 'aria-expanded="true"' in opened


def test_the_queue_is_filtered_by_reason_and_project(as_operator: Client) -> None:
    estimated("red", 60.0, 120.0, project=factories.project("reds"))
    estimated("blue", 60.0, 120.0, project=factories.project("blues"))
    WaitingShape.objects.filter(jobs__name="red").update(reason_code="LocalityShort")
    Job.objects.filter(name="red").update(reason_code="LocalityShort")
    assert ">blue</a>" not in page(as_operator, "?reason=LocalityShort")
    assert ">red</a>" not in page(as_operator, "?project=blues")
    assert "No waiting job matches the filters" in page(as_operator, "?project=greens")


def test_a_queue_that_is_longer_than_what_is_read_says_so(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("m1", "m2", "m3"):
        estimated(name, 60.0, 90.0)
    assert "At least" not in page(as_operator)
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 2)
    shown = page(as_operator)
    assert "At least <b>2</b> jobs wait" in shown
    assert "More jobs wait; the numbers are of the 2 that match and start soonest." in shown
    assert as_operator.get("/api/v1/queues/").json()["is_cut"] is True
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 3)
    assert "At least" not in page(as_operator)
    assert as_operator.get("/api/v1/queues/").json()["is_cut"] is False


def listed(client: Client, query: str = "") -> list[str]:
    """Names of the jobs that REST lists."""
    return [job["name"] for job in client.get(f"/api/v1/queues/{query}").json()["jobs"]]


def test_a_cut_queue_keeps_the_jobs_that_start_soonest(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.job("unknown", state="queued", reason_code="NoFreeUnit")
    for name, start_s in (("late", 900.0), ("soon", 60.0), ("next", 10.0)):
        estimated(name, start_s, 1000.0)
    assert listed(as_operator) == ["next", "soon", "late", "unknown"]
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 2)
    assert listed(as_operator) == ["next", "soon"]


@pytest.fixture
def longer_than_read(clock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three jobs of a project that start soon, one of another on hold; two are read at most."""
    for name in ("red-1", "red-2", "red-3"):
        estimated(name, 60.0, 120.0, project=factories.project("reds"))
    factories.job("blue", state="queued", held=True, project=factories.project("blues"))
    monkeypatch.setattr("apps.scheduling.selectors.waits.MAX_JOBS", 2)


@pytest.mark.usefixtures("longer_than_read")
def test_the_filters_apply_before_the_limit(as_operator: Client) -> None:
    for query in ("?project=blues", "?reason=Held", "?project=blues&reason=Held"):
        assert ">blue</a>" in page(as_operator, query), query
        assert "At least" not in page(as_operator, query), query
        assert listed(as_operator, query) == ["blue"], query
    assert listed(as_operator, "?project=blues&reason=NoFreeUnit") == []


@pytest.mark.usefixtures("longer_than_read")
def test_the_filters_count_all_waiting_jobs(as_operator: Client) -> None:
    shown = page(as_operator, "?project=blues")
    counts = re.findall(r'([a-z ]+) <span class="t3">(\d)</span></a>', shown)
    assert counts == [("on hold", "1"), ("no free unit", "3"), ("blues", "1"), ("reds", "3")]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("reason=Absent", "reason must be one of Invalid, Held, "),
        ("reason=", "reason must be one of "),
        (
            f"project={'p' * 201}",
            f"project must be text of at most 200 characters, not '{'p' * 59}.",
        ),
        ("state=queued", "state is not a parameter of this route; known: fields, omit, project"),
    ],
    ids=["unknown reason", "no reason", "long project", "unknown filter"],
)
def test_an_invalid_filter_of_the_queue_is_refused(
    as_operator: Client, query: str, detail: str
) -> None:
    other = as_operator.get("/api/v1/jobs/?reason=Absent")
    response = as_operator.get(f"/api/v1/queues/?{query}")
    assert response.status_code == other.status_code
    assert response.json()["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"state": "submitted", "reason_code": "WaitingForAgent"}, "WaitingForAgent"),
        ({"state": "submitted", "reason_code": "Obsolete"}, "WaitingForAgent"),
        ({"state": "profiling", "reason_code": "NoFreeUnit"}, "WaitingForProfile"),
        ({"state": "queued", "reason_code": "NoFreeUnit"}, "NoFreeUnit"),
        ({"state": "queued", "reason_code": "NoFreeUnit", "held": True}, "Held"),
        ({"state": "queued", "reason_code": "WaitingForArray", "held": True}, "WaitingForArray"),
    ],
)
def test_a_waiting_job_is_found_by_the_reason_that_the_queue_shows(
    as_operator: Client, values: dict[str, Any], reason: str
) -> None:
    factories.job("one", **values)
    (row,) = as_operator.get(f"/api/v1/queues/?reason={reason}").json()["jobs"]
    assert row["reason"] == reason
    assert listed(as_operator, "?reason=CapacityShort") == []


@pytest.mark.parametrize(
    ("values", "is_gang"),
    [
        ({"gang": True, "held": True}, True),
        ({"gang": True, "state": "profiling"}, True),
        ({"gang": False}, False),
        ({"gang": False, "constraints": {"locality": "rack"}}, True),
        ({"gang": False, "constraints": {"locality": None}}, False),
    ],
)
def test_the_queue_says_gang_of_jobs_that_no_agent_has_evaluated(
    as_operator: Client, values: dict[str, Any], is_gang: bool
) -> None:
    factories.job("one", **{"state": "queued", "units_requested": 4, **values})
    (row,) = as_operator.get("/api/v1/queues/").json()["jobs"]
    assert row["gang"] is is_gang
    assert ("4 units, gang" in page(as_operator)) is is_gang


def test_a_held_job_has_the_reason_held_and_no_start(as_operator: Client) -> None:
    factories.job("paused", state="queued", held=True, reason_code="NoFreeUnit")
    shown = page(as_operator)
    assert "on hold" in shown
    assert "<b>unknown</b>" in shown


def test_members_see_the_jobs_and_scores_of_their_projects(client: Client) -> None:
    mine, secret = factories.project("mine"), factories.project("secret")
    estimated("own-job", 60.0, 120.0, project=mine)
    estimated("zq-hidden", 60.0, 120.0, project=secret)
    started("ips, 1 unit", 50.0, p50_s=60.0, p90_s=90.0, project=mine)
    started("best_effort, 1 unit", 50.0, p50_s=60.0, p90_s=90.0, project=secret)
    user = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=user, project=mine)
    client.force_login(user)
    shown = page(client)
    assert "own-job" in shown
    assert "zq-hidden" not in shown
    assert "instructions/s, 1 unit" in shown
    assert "best effort, 1 unit" not in shown
    body = client.get("/api/v1/queues/").json()
    assert [job["name"] for job in body["jobs"]] == ["own-job"]
    assert [score["kind"] for score in body["scores"]] == ["ips, 1 unit"]


def test_the_first_estimates_of_a_class_are_scored() -> None:
    for wait_s in (50.0, 80.0, 100.0, 400.0):
        started("ips, 1 unit", wait_s, p50_s=60.0, p90_s=90.0)
    (score,) = start_scores(None, now_s=NOW_S + 500.0)
    assert (score.count, score.by_p90, score.covered) == (4, 0.5, 0.5)
    assert score.bias_s == pytest.approx(30.0)  # of -10, 20, 40 and 340 s
    assert score.waited_s == pytest.approx(157.5)
    assert start_scores(None, now_s=NOW_S + 90_000.0) == []


def test_the_limit_of_scores_counts_only_estimates_of_the_projects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.scheduling.selectors.waits.SCORED", 2)
    mine, other = factories.project("mine"), factories.project("other")
    started("ips, 1 unit", 50.0, p50_s=60.0, p90_s=90.0, project=mine)
    for wait_s in (80.0, 100.0):
        started("ips, 1 unit", wait_s, p50_s=60.0, p90_s=90.0, project=other)
    (score,) = start_scores([mine.id], now_s=NOW_S + 500.0)
    assert score.count == 1


def test_an_estimate_beyond_the_simulation_covers_any_start() -> None:
    job = factories.job(state="running")
    estimate(job, None, None, placed_s=NOW_S + 50.0, is_open=False)
    (score,) = start_scores(None, now_s=NOW_S + 60.0)
    assert (score.covered, score.by_p90, score.bias_s) == (1.0, 1.0, None)


def unknown(kind: str = "ips, 1 unit") -> None:
    """A start whose estimate was unknown."""
    job = factories.job(state="running")
    values = {"kind": kind, "p5_s": None, "placed_s": NOW_S + 50.0, "is_open": False}
    estimate(job, None, None, **values)


def test_starts_with_unknown_estimates_are_counted_apart() -> None:
    for wait_s in (50.0, 400.0):
        started("ips, 1 unit", wait_s, p50_s=60.0, p90_s=90.0)
    unknown()
    (score,) = start_scores(None, now_s=NOW_S + 500.0)
    assert (score.count, score.unknown) == (2, 1)
    assert (score.by_p90, score.covered, score.bias_s) == (0.5, 0.5, 165.0)
    assert score.waited_s == pytest.approx(500.0 / 3)


def test_a_class_of_unknown_estimates_has_no_shares(as_operator: Client) -> None:
    unknown("best_effort, 1 unit")
    Cluster.objects.update(seen_cluster_s=NOW_S + 100.0)
    (row,) = as_operator.get("/api/v1/queues/").json()["scores"]
    assert (row["count"], row["unknown"]) == (0, 1)
    assert (row["covered"], row["by_p90"], row["bias_seconds"]) == (None, None, None)
    assert "n = 0; 1 more had no estimate" in page(as_operator)


def test_a_median_later_than_simulated_is_among_the_errors() -> None:
    for _ in range(2):
        job = factories.job(state="running")
        estimate(job, None, None, placed_s=NOW_S + 50.0, is_open=False)
    started("ips, 1 unit", 50.0, p50_s=60.0, p90_s=90.0)
    (score,) = start_scores(None, now_s=NOW_S + 60.0)
    assert (score.count, score.bias_s) == (3, None)


def test_the_queue_in_rest_is_in_seconds_from_now(as_operator: Client) -> None:
    job = estimated("m1", 60.0, None)
    (row,) = as_operator.get("/api/v1/queues/").json()["jobs"]
    assert (row["id"], row["units"], row["tier"]) == (str(job.id), 1, 7)
    assert (row["p50_seconds"], row["p90_seconds"], row["ahead"]) == (60.0, None, 3)
    assert row["waited_seconds"] == 600.0


def test_earlier_estimates_of_a_job_are_kept_in_rest(as_operator: Client) -> None:
    job = estimated("m1", 60.0, 90.0)
    estimate(job, 30.0, 40.0)
    body = as_operator.get(f"/api/v1/jobs/{job.id}/wait-estimate/").json()
    assert [row["p50_seconds"] for row in body["results"]] == [NOW_S + 30.0, NOW_S + 60.0]


def test_the_page_and_the_explanation_of_a_job_tell_its_start(as_operator: Client) -> None:
    job = estimated("m1", 180.0, 420.0)
    shown = as_operator.get(f"/jobs/{job.id}/?tab=why").content.decode()
    assert "in 3 min to 7 min (p50 to p90), after 3 jobs" in shown
    body = as_operator.get(f"/api/v1/jobs/{job.id}/explanation/").json()
    assert body["start"] == {"p50_seconds": 180.0, "p90_seconds": 420.0}


def test_the_axis_reaches_a_start_whose_p90_is_later_than_simulated() -> None:
    estimated("late", 3000.0, None)
    shown = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S)
    assert (shown.rows[0].start_s, shown.axis_s) == (3000.0, 3600.0)


def test_an_open_request_says_how_many_of_its_jobs_are_not_listed(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.dashboard.core.queue_rows.MAX_ROWS", 2)
    first = shaped(name="first")
    for name in ("second", "third", "fourth"):
        factories.job(name, application=first.application, submitted_s=NOW_S)
    Job.objects.update(shape=first.shape, reason_code="NoFreeUnit")
    assert "not shown" not in page(as_operator)
    shown = page(as_operator, f"?shape={first.shape_id}")
    assert "2 later jobs of the open request are not shown." in shown
    assert "fourth" not in shown


def test_the_members_that_an_array_holds_are_one_row_after_the_waiting_jobs(
    as_operator: Client,
) -> None:
    array = Batch.objects.create(
        project=factories.project(), created_by=factories.user(), mode="array",
        total=3, accepted=3, name="sweep", array_limit=1,
    )  # fmt: skip
    for index in (2, 0, 1):
        factories.job(
            f"sweep-{index}", batch=array, array_index=index, submitted_s=0.0, units_requested=50,
            held=index > 0, reason_code="WaitingForArray" if index else "NoFreeUnit",
            created_at=factories.MOMENT,
        )  # fmt: skip
    estimated("soon", 60.0, 120.0)
    factories.job("paused", held=True, submitted_s=0.0, units_requested=50)
    factories.job("new", submitted_s=NOW_S, units_requested=4)
    found = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S)
    assert [[job.name for job in row.jobs] for row in found.rows] == [
        ["soon"], ["sweep-0"], ["new"], ["sweep-1", "sweep-2"], ["paused"],
    ]  # fmt: skip
    assert (found.waiting, found.held, found.units, found.unpredicted) == (3, 3, 55, 2)
    shown = page(as_operator)
    assert f'?q=array:{array.pk}">sweep × 2, limit 1</a>' in shown
    assert "<b>3</b> jobs wait" in shown
    assert "<b>3</b> more are held." in shown


def test_held_jobs_are_not_the_oldest_wait(as_operator: Client) -> None:
    factories.job("paused", held=True, submitted_s=0.0)
    found = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S)
    assert (found.oldest, found.start_s, found.held) == (None, None, 1)
    assert "All waiting jobs are held." in page(as_operator)


def test_reserved_units_are_free_by_a_day_at_the_latest(as_operator: Client) -> None:
    job = estimated("gang", 60.0, 120.0)
    Reservation.objects.create(
        job_id=job.id, unit_ids=[1], made_s=NOW_S, promised_s=NOW_S, start_s=5_539_455.0
    )
    shown = re.sub(r"<[^>]*>", "", page(as_operator))
    assert "units reserved, all free by day 65, 02:44 at the latest" in shown


def reserved(name: str, units: list[int], start_s: float, **values: Any) -> Job:
    """A waiting job for which units are reserved since five minutes ago."""
    job = estimated(name, 60.0, 120.0, **values)
    times = {"made_s": NOW_S - 300.0, "promised_s": NOW_S + 60.0, "start_s": start_s}
    Reservation.objects.create(job_id=job.id, unit_ids=units, **times)
    return job


def units_of(server: Server) -> list[int]:
    return list(server.units.order_by("core").values_list("id", flat=True))


def test_reservations_are_listed_by_their_start(as_operator: Client) -> None:
    first, second = factories.server(), factories.server()
    factories.allocation(factories.job(state="running"), first)
    (busy, *free), others = units_of(first), units_of(second)[:2]
    late = reserved("late", [busy, *free, *others], NOW_S + 900.0, priority=7)
    soon = reserved("soon", others, NOW_S + 120.0)
    body = as_operator.get("/api/v1/queues/").json()["reservations"]
    assert [row["job"] for row in body] == [str(soon.id), str(late.id)]
    expected = {
        "name": "late",
        "project": late.project.name,
        "priority": 7,
        "units": len(free) + 3,
        "free_units": len(free) + 2,
        "servers": 2,
        "made_seconds": NOW_S - 300.0,
        "start_seconds": NOW_S + 900.0,
        "promised_seconds": NOW_S + 60.0,
        "for_preemption": False,
    }
    assert body[1] == {"job": str(late.id), **expected}
    shown = " ".join(re.sub(r"<[^>]*>", " ", page(as_operator)).split())
    assert f"{len(free) + 5} units reserved for 2 waiting jobs" in shown
    counts = f"7 {len(free) + 3} {len(free) + 2} 2"
    assert f"late default {counts} day 1, 01:55 day 1, 02:15 day 1, 02:01 " in shown


def test_the_page_says_how_many_reservations_it_leaves_out(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.dashboard.views.queues.MAX_RESERVATIONS", 1)
    units = units_of(factories.server())
    reserved("soon", units[:1], NOW_S)
    reserved("zq-late", units[1:3], NOW_S + 60.0)
    shown = page(as_operator)
    assert "3 units reserved for 2 waiting jobs<" in shown
    assert "1 later reservation is not shown." in shown
    assert len(as_operator.get("/api/v1/queues/").json()["reservations"]) == 2


def test_a_reservation_without_a_waiting_job_is_not_listed(as_operator: Client) -> None:
    units = units_of(factories.server())
    gone = [reserved(name, units[i : i + 1], NOW_S) for i, name in enumerate(("a", "b", "c"))]
    Job.objects.filter(id=gone[0].id).update(held=True, shape=None)
    Job.objects.filter(id=gone[1].id).update(state="running", shape=None)
    Job.objects.filter(id=gone[2].id).update(cancel_requested=True)
    assert as_operator.get("/api/v1/queues/").json()["reservations"] == []
    assert 'id="queue-reservations" data-live hidden' in page(as_operator)


def test_members_see_the_reservations_of_their_projects(client: Client) -> None:
    mine, secret = factories.project("mine"), factories.project("secret")
    units = units_of(factories.server())
    reserved("own-job", units[:1], NOW_S, project=mine)
    reserved("zq-hidden", units[1:2], NOW_S, project=secret)
    user = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=user, project=mine)
    client.force_login(user)
    body = client.get("/api/v1/queues/").json()["reservations"]
    assert [row["name"] for row in body] == ["own-job"]
    assert "1 unit reserved for 1 waiting job<" in page(client)


def test_a_job_without_a_predicted_start_is_not_the_next_to_start() -> None:
    job = shaped(name="alone", submitted_s=NOW_S)
    estimate(job, None, None, p5_s=None, ahead=0)
    (row,) = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S).rows
    assert (row.start, row.position) == ("unknown", "")
    estimate(job, 60.0, None, ahead=0)
    (row,) = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S).rows
    assert (row.start, row.position) == ("1 min", "next to start")


def test_a_job_that_was_submitted_after_the_clock_was_read_has_not_waited(
    as_operator: Client,
) -> None:
    shaped(name="new", submitted_s=NOW_S + 5.0)
    shown = queue_page(waiting_jobs(None), [], [], QueueFilter(), now_s=NOW_S)
    assert (shown.rows[0].waited_s, shown.oldest_s) == (0.0, 0.0)
    (job,) = as_operator.get("/api/v1/queues/").json()["jobs"]
    assert job["waited_seconds"] == 0.0


def test_starts_are_described_in_words() -> None:
    assert start_text(60.0, 120.0, 0) == "in 1 min to 2 min (p50 to p90)"
    assert start_text(60.0, None, 1) == "in 1 min (p50; p90 unknown), after 1 job"
    assert (
        start_text(None, None, 0) == "unknown: the time when units become free cannot be predicted"
    )


@override_settings(ADMISSION="arq")
def test_the_classes_of_the_admission_control_are_shown(as_operator: Client) -> None:
    rows = [
        QueueState("class 9", 3, 2, 0.5, 60.0, 9.0, None, 1, 1.5, 0.25, 1.2),
        QueueState("class 8", 1, 4, None, None, None, None, 0, None),
        QueueState("class 7", 0, 0, 0.0, None, None, None, 0),
    ]
    queues = [row.as_json() for row in rows]
    AdmissionState.objects.create(control="arq", agent="a", cluster_s=1.0, queues=queues)
    shown = page(as_operator)
    assert "Jobs wait for units of 1 of 2 classes" in shown
    cells = re.findall(r"<tr><td>(class \d)</td>(.*?)</tr>", shown)
    values = {name: re.findall(r">([^<>]+)</td>", rest) for name, rest in cells}
    assert values == {
        "class 9": ["3", "2", "90.00", "25 %", "1 min", "1.20, grows", "1"],
        "class 8": ["1", "4", "–", "0 %", "–", "–", "0"],
    }
