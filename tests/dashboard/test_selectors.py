import base64
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.common.infrastructure.database import database_now
from apps.dashboard.core.job_query import parse
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.selectors import (
    decision_times,
    explanation,
    frames,
    jobs,
    overview,
    servers,
    utilisation,
)
from apps.dashboard.selectors.attention import needs_attention
from apps.dashboard.selectors.job_facets import job_facets
from apps.dashboard.selectors.job_facts import (
    EarlierRun,
    api_calls,
    api_filter,
    job_header,
    job_rows,
    trends,
)
from apps.execution.models import JobSample
from apps.inventory.models import ServerState
from apps.operations.models import Operation
from apps.profiling.models import ProfilingRun
from apps.scheduling.selectors.waits import waiting_jobs
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.selectors import job_counts, submission_of
from tests import factories

pytestmark = pytest.mark.django_db
SPAN = TimeRange("24h", 0.0, 7200.0)


# ---- frames ----


def test_bytes_become_shares_and_255_is_missing() -> None:
    shares = frames.shares_of(bytes([0, 100, 200, 255]))
    assert shares[:3].tolist() == [0.0, 0.5, 1.0]
    assert np.isnan(shares[3])


def test_long_histories_are_thinned_but_keep_the_newest() -> None:
    rows = [factories.frame(10.0 * i, [0.5]) for i in range(1, 31)]
    chosen = frames.chosen_frames(SPAN, limit=7)
    assert len(chosen) == 7
    assert chosen[-1] == rows[-1].id


def test_frames_outside_the_range_are_left_out() -> None:
    factories.frame(9000.0, [0.5])
    assert frames.chosen_frames(SPAN, limit=7) == []


def test_a_server_that_joined_later_is_missing_before() -> None:
    factories.frame(10.0, [0.5])
    factories.frame(20.0, [0.5, 0.7])
    _, shares = frames.server_shares(SPAN, "server_cpu", limit=10)
    assert np.isnan(shares[0, 1])
    assert shares[1, 1] == 0.7


def test_facts_that_a_frame_lacks_are_missing() -> None:
    series = frames.fact_series(({"jobs": {"running": 3}}, {}, {"jobs": 1}), "jobs", "running")
    assert series[0] == 3
    assert np.isnan(series[1:]).all()


# ---- utilisation ----


def test_rows_follow_the_platforms_from_the_highest_end() -> None:
    slow, fast = factories.platform("slow", rank=1), factories.platform("fast", rank=0)
    factories.server("a", of=slow)
    factories.server("b", of=fast)
    factories.frame(10.0, [0.2, 0.8])
    usage = utilisation.utilisation(SPAN)
    assert [platform.name for platform in usage.platforms] == ["fast", "slow"]
    assert usage.used[:, 0].tolist() == [0.8, 0.2]
    assert usage.row_names == ("b", "a")


def test_without_frames_the_picture_is_empty() -> None:
    factories.server()
    assert utilisation.utilisation(SPAN).times_s.size == 0


# ---- overview ----


def test_attainment_takes_running_jobs_and_those_that_ended_in_the_range() -> None:
    factories.job(state="running", attainment=1.2)
    factories.job(state="succeeded", attainment=0.9, finished_s=3600.0)
    factories.job(state="succeeded", attainment=0.1, finished_s=-1.0)
    bars = overview.attainment(SPAN)
    assert (bars.jobs, bars.missed) == (2, 1)


def test_waiting_jobs_are_counted_by_reason_with_their_waits() -> None:
    factories.job(state="queued", reason_code="LocalityShort", submitted_s=7100.0)
    factories.job(state="queued", reason_code="LocalityShort", submitted_s=7000.0)
    factories.job(state="queued", held=True, reason_code="LocalityShort")
    factories.job(state="submitted", held=True, reason_code="WaitingForArray")
    factories.job(state="profiling")
    reasons = {reason.code: reason for reason in overview.queue_by_reason(SPAN).reasons}
    assert {code: r.now for code, r in reasons.items()} == {
        "LocalityShort": 2,
        "Held": 1,
        "WaitingForArray": 1,
        "WaitingForProfile": 1,
    }
    assert reasons["LocalityShort"].wait_p50_s == 150.0


def test_latency_percentiles_cover_the_whole_range() -> None:
    job = factories.job()
    factories.decision(job, elapsed_s=0.001, cluster_s=100.0)
    factories.decision(job, elapsed_s=0.003, cluster_s=5000.0, commit_retries=2, agent="b")
    latency = decision_times.decision_latency(SPAN)
    assert latency.decisions == 2
    assert latency.now_p50_s == pytest.approx(0.002)
    assert latency.conflicts.sum() == 2
    assert latency.agents == 2


def test_a_refusal_without_a_policy_has_no_decision_time() -> None:
    job = factories.job()
    factories.decision(job, elapsed_s=0.0, cluster_s=100.0)
    assert decision_times.decision_latency(SPAN).decisions == 0
    assert decision_times.agent_times(SPAN) == ()
    factories.decision(job, elapsed_s=0.002, cluster_s=5000.0)
    latency = decision_times.decision_latency(SPAN)
    assert (latency.decisions, latency.now_p50_s) == (1, 0.002)
    assert np.nanmin(latency.p50_s) == 0.002
    assert [each.decisions for each in decision_times.agent_times(SPAN)] == [1, 1]


def test_latency_without_decisions_is_not_known() -> None:
    latency = decision_times.decision_latency(SPAN)
    assert latency.decisions == 0
    assert np.isnan(latency.now_p99_s)


def test_the_summary_counts_what_the_database_holds() -> None:
    factories.cluster()
    machine = factories.server()
    factories.allocation(factories.job(state="running", attainment=1.1), machine, cores=2)
    factories.job(state="queued")
    totals = overview.summary(SPAN)
    assert (totals.verdict.met, totals.verdict.jobs) == (1, 1)
    assert (totals.verdict.running, totals.verdict.waiting) == (1, 1)
    assert "of 4 units; 50.0 % allocated" in [cell.note for cell in totals.strip]


# ---- attention ----


def test_the_worst_job_comes_first() -> None:
    factories.job("good", state="running", attainment=1.1)
    factories.job("bad", state="running", attainment=0.9)
    factories.job("worst", state="running", attainment=0.5)
    rows = needs_attention(factories.principal(), now=factories.MOMENT)
    assert [item.title for item in rows.items] == [
        "worst is below its target",
        "bad is below its target",
    ]


def test_a_silent_server_is_named_with_its_silence() -> None:
    machine = factories.server("srv-0231")
    factories.reading(machine, at=factories.MOMENT - timedelta(seconds=190))
    rows = needs_attention(factories.principal(), now=factories.MOMENT)
    assert rows.items[0].title == "srv-0231 is silent for 3 min 10 s"


def test_many_silent_servers_are_one_item() -> None:
    kind = factories.platform()
    for _ in range(3):
        factories.server(of=kind, state=ServerState.DOWN)
    rows = needs_attention(factories.principal(), now=factories.MOMENT)
    assert [item.title for item in rows.items] == ["3 servers are silent or down"]
    assert rows.total == 1


def test_failed_profiling_runs_need_attention_for_a_day() -> None:
    now = database_now()
    old, new = (factories.application(name) for name in ("old", "new"))
    for about in (old, new, new):
        factories.profiling_run(about, state="failed")
    ProfilingRun.objects.filter(application=old).update(created_at=now - timedelta(hours=25))
    rows = needs_attention(factories.principal(), now=now)
    assert [(item.title, item.fact) for item in rows.items] == [
        ("new could not be profiled", "2 runs failed within a day")
    ]
    assert rows.total == 1


def test_every_kind_links_to_the_items_that_are_not_shown() -> None:
    now = database_now()
    for i in range(9):
        factories.job(f"slow-{i}", state="running", attainment=0.5)
        factories.job(f"lost-{i}", state="failed", finished_at=now)
        factories.job(f"stuck-{i}", state="queued", reason_code="NoMatchingServer")
    rows = needs_attention(factories.principal(), now=now)
    assert rows.total == 27
    assert len(rows.items) == 6
    assert [(kind.text, kind.url) for kind in rows.hidden] == [
        ("6 jobs below target", "/jobs/?q=is:below"),
        ("6 jobs that cannot be placed", "/jobs/?q=state:queued"),
        ("9 failed jobs", "/jobs/?q=state:failed"),
    ]


def test_a_failed_operation_is_named_and_leads_to_its_page() -> None:
    Operation.objects.create(kind="batch.submit", status="failed")
    (item,) = needs_attention(factories.principal(), now=database_now()).items
    assert (item.title, item.url) == (
        "Batch of jobs failed",
        "/system/#system-operations",
    )


def test_nothing_needs_attention_in_a_quiet_cluster() -> None:
    assert needs_attention(factories.principal(), now=factories.MOMENT).total == 0


# ---- jobs ----


def listed(text: str) -> set[str]:
    return {job.name for job in jobs.matching(Job.objects.all(), parse(text))}


def test_every_part_of_a_query_narrows_the_list() -> None:
    app = factories.application("wc")
    factories.job(
        "wanted-1", state="running", application=app, labels={"team": "ml"}, attainment=0.9
    )
    factories.job("other", state="running", application=app, labels={"team": "ml"}, attainment=1.9)
    factories.job("wanted-2", state="queued", application=app, labels={"team": "ml"})
    assert listed("state:running app:wc label:team=ml is:below") == {"wanted-1"}
    assert listed("wanted") == {"wanted-1", "wanted-2"}
    assert listed("label:team=web") == set()


def test_pages_neither_repeat_nor_skip_jobs() -> None:
    for i in range(5):
        factories.job(f"job-{i}")
    first = jobs.jobs_page(Job.objects.all(), parse(""), cursor=None, limit=3)
    second = jobs.jobs_page(Job.objects.all(), parse(""), cursor=first.next, limit=3)
    names = [job.name for job in (*first.rows, *second.rows)]
    assert names == ["job-4", "job-3", "job-2", "job-1", "job-0"]
    assert second.next is None


def test_the_list_asks_for_servers_once_whatever_its_length(
    django_assert_num_queries: pytest.FixtureRequest,
) -> None:
    machine = factories.server()
    running = [factories.job(state="running", started_s=3020.0) for _ in range(3)]
    for job in running:
        factories.allocation(job, machine)
    with django_assert_num_queries(3):  # type: ignore[operator]  # a context manager factory
        rows = job_rows(running, now_s=7200.0)
    assert {row.on for row in rows} == {machine.name}


def test_the_small_line_shows_the_last_two_hours_of_reports() -> None:
    job = factories.job(state="running", started_s=0.0)
    reports = [(100.0, 0.2), (7000.0, 0.9), (8000.0, 1.1), (8100.0, None)]
    same = {"job": job, "progress": 0.0, "performance": 1.0, "cpu_share": 0.5}
    JobSample.objects.bulk_create(
        JobSample(cluster_s=at_s, attainment=value, **same) for at_s, value in reports
    )
    assert trends([job], now_s=8200.0) == {job.id: ((-1200.0, 0.9), (-200.0, 1.1))}


def test_a_facet_in_force_is_a_link_that_clears_it() -> None:
    factories.job("web-1", state="running")
    text = "state:running web"
    state = job_facets(Job.objects.all(), None, text, parse(text), job_counts(None)).facets[0]
    assert [(c.name, c.count, c.text, c.current) for c in state.choices] == [
        ("running", 1, "web", True)
    ]


def test_stages_of_a_running_job() -> None:
    job = factories.job(
        state="running",
        submitted_s=0.0,
        profiled_s=12.0,
        queued_s=12.0,
        placed_s=53.0,
        started_s=54.0,
    )
    stages = jobs.stages(job, now_s=100.0)
    assert [(s.name, s.took_s, s.mark) for s in stages] == [
        ("Submitted", None, ""),
        ("Profiled", 12.0, ""),
        ("Queued", 41.0, ""),
        ("Started", 1.0, ""),
        ("Running", 46.0, "now"),
    ]


def test_a_known_application_is_not_profiled_again() -> None:
    job = factories.job(state="queued", submitted_s=0.0, queued_s=1.0)
    assert [(s.name, s.mark) for s in jobs.stages(job, now_s=5.0)] == [
        ("Submitted", ""),
        ("Queued", "now"),
        ("Started", "todo"),
        ("Running", "todo"),
    ]


@pytest.fixture
def preempted() -> Job:
    """A job that ran from 10 s to 60 s, gave its units to another and waits."""
    job = factories.job(
        "again", state="queued", submitted_s=0.0, placed_s=8.0, started_s=10.0, attempts=1,
        reason_code="NoFreeUnit",
    )  # fmt: skip
    factories.allocation(
        job, factories.server(), acquired_seq=1, released_seq=2, released_s=60.0,
        released_at=factories.MOMENT,
    )  # fmt: skip
    factories.launch(job, state="ended", started_s=10.0, ended_s=60.0, outcome="preempted")
    return job


def test_a_preempted_job_waits_since_it_was_requeued(preempted: Job) -> None:
    shown = [(s.name, s.took_s, s.mark) for s in jobs.stages(preempted, now_s=100.0)]
    assert shown == [
        ("Submitted", None, ""),
        ("Ran", 50.0, ""),
        ("Queued", 40.0, "now"),
        ("Started", None, "todo"),
        ("Running", None, "todo"),
    ]
    header = job_header(preempted, now_s=100.0)
    assert (header.waited, header.to_start, header.parts) == (40.0, None, ())
    assert header.earlier == EarlierRun(
        "Preempted by a job of higher priority", 60.0, "after it ran for 50 s"
    )
    assert [row.time for row in job_rows([preempted], now_s=100.0)] == ["waiting 40 s"]


def test_the_queue_counts_the_wait_of_a_preempted_job_from_its_requeue(preempted: Job) -> None:
    (waiting,) = waiting_jobs(None).jobs
    assert waiting.since_s == 60.0
    (reason,) = overview.queue_by_reason(SPAN).reasons
    assert (reason.now, reason.wait_p50_s) == (1, SPAN.last_s - 60.0)


def test_a_cancelled_job_ends_where_it_was() -> None:
    job = factories.job(state="cancelled", submitted_s=0.0, queued_s=1.0, finished_s=9.0)
    stages = jobs.stages(job, now_s=100.0)
    assert [(s.name, s.took_s) for s in stages] == [
        ("Submitted", None),
        ("Queued", 9.0),
        ("Cancelled", None),
    ]


def test_a_prediction_in_seconds_becomes_a_share_of_the_target() -> None:
    job = factories.job(predicted={"value": 500.0, "low": 400.0, "high": 600.0})
    value, low, high = jobs.predicted_attainment(job)
    assert (value, low, high) == (1.2, 1.0, 1.5)


def test_job_facts_name_where_it_runs() -> None:
    job = factories.job(state="running", attainment=1.2, performance=500.0)
    machine = factories.server("srv-0212")
    factories.allocation(job, machine, cores=3)
    header = job_header(job, now_s=7200.0)
    assert (header.units, header.servers, header.meets) == (3, ("srv-0212",), True)


def test_a_job_that_grew_ran_on_all_that_its_last_run_was_given() -> None:
    job = factories.job(state="succeeded", units=6, finished_s=9000.0)
    names = ("srv-0001", "srv-0002", "srv-0003")
    servers = [factories.server(name) for name in names]
    for server, before in zip(servers, (0, 0, 3), strict=True):
        by = factories.decision(job, units_before=before)
        factories.allocation(job, server, cores=3, by=by, released_seq=10**9)
    header = job_header(job, now_s=9500.0)
    assert (header.units, header.servers) == (6, ("srv-0002", "srv-0003"))


def test_the_spec_on_the_page_can_be_posted_again() -> None:
    job = factories.job(
        tasks_total=4, labels={"team": "ml"}, priority=5, constraints={"platforms": ["A"]}
    )
    again = parse_job(submission_of(job))
    assert (again.tasks, again.priority, again.labels) == (4, 5, {"team": "ml"})


def test_the_calls_on_the_page_name_the_job() -> None:
    job = factories.job()
    calls = dict(api_calls(job, submission_of(job), host="http://berth"))
    assert f"http://berth/api/v1/jobs/{job.id}/" in calls["This job"]


def test_the_rest_filter_lists_the_same_open_jobs() -> None:
    query = parse("state:running,succeeded app:wc label:team=ml is:below web")
    assert api_filter(query) == (
        "state__in=running&application=wc&q=web&label=team%3Aml&attainment__lt=1"
    )
    assert api_filter(parse("")) == "state__in=submitted%2Cprofiling%2Cqueued%2Cstarting%2Crunning"


@pytest.mark.parametrize("text", ["two words", "priority:3", "state:succeeded"])
def test_what_rest_cannot_filter_has_no_rest_filter(text: str) -> None:
    assert api_filter(parse(text)) == ""


# ---- decisions ----


def test_an_explanation_reads_the_decision_alone() -> None:
    machine = factories.server("srv-0212")
    other = factories.server("srv-0077")
    decision = factories.decision(
        factories.job(),
        candidates=[
            factories.candidate(machine, verdict="chosen"),
            factories.candidate(other, verdict="too_noisy", headroom=[-3.0, *[5.0] * 9]),
        ],
        dropped={"busy": 60, "closed": 0},
    )
    shown = explanation.explanation(decision)
    assert "srv-0212" in shown.paragraph[0]
    assert shown.noisy == 1
    assert [(d.text, d.units) for d in shown.dropped] == [("allocated to other jobs", 60)]
    assert shown.shown_sources == (0, 1, 2)


# ---- servers ----


def test_the_map_has_one_byte_per_server_and_layer() -> None:
    machine = factories.server()
    factories.server(of=machine.platform, state=ServerState.DOWN)
    factories.reading(machine, cpu_share=0.25)
    factories.allocation(
        factories.job(state="running"), machine, cores=2, caused=[30.0] * N_SOURCES
    )
    state = servers.map_state(now=factories.MOMENT + timedelta(seconds=7))
    assert frames_of(state["cpu"]) == [50, 255]
    assert frames_of(state["allocated"]) == [100, 0]
    assert frames_of(state["age"]) == [7, 255]
    assert frames_of(state["state"]) == [0, 3]
    assert frames_of(state["pressure"][0]) == [40, 0]  # 2 * (2 * 30) / (4 - 1)


def frames_of(text: str) -> list[int]:
    return list(base64.b64decode(text))


def test_the_layout_names_every_server_in_order() -> None:
    first = factories.server("a", rack="r1")
    factories.server("b", of=first.platform, rack="r2")
    layout = servers.map_layout()
    assert layout["names"] == ["a", "b"]
    assert [layout["racks"][i] for i in layout["rack"]] == ["r1", "r2"]


def test_the_map_of_no_servers_is_empty() -> None:
    assert servers.map_state(now=factories.MOMENT)["cpu"] == ""


def test_tenants_are_listed_per_core() -> None:
    machine = factories.server()
    factories.allocation(factories.job("web", state="running"), machine, cores=2)
    tenants = servers.tenancy(machine, Job.objects.all())
    assert [
        core.tenant.job.name if core.tenant and core.tenant.job else "" for core in tenants.cores
    ] == [
        "web",
        "web",
        "",
        "",
    ]
    assert tenants.tenants[0].cores == (0, 1)


def test_pressure_divides_by_the_other_units() -> None:
    machine = factories.server()
    factories.allocation(
        factories.job(state="running"), machine, cores=3, caused=[20.0] * N_SOURCES
    )
    assert servers.pressure(machine.name, Job.objects.all()).caused[0] == pytest.approx(20.0)


def test_how_often_a_server_was_considered() -> None:
    machine = factories.server()
    job = factories.job()
    factories.decision(job, candidates=[factories.candidate(machine, verdict="chosen")])
    factories.decision(job, candidates=[factories.candidate(machine, verdict="too_noisy")])
    jobs_considered = servers.considered(machine)
    assert (jobs_considered.examined, jobs_considered.chosen, jobs_considered.main_rejection) == (
        2,
        1,
        "too contended",
    )


def test_a_server_that_was_outranked_without_a_quality_ranked_lower() -> None:
    machine = factories.server()
    unrated: dict[str, Any] = {"quality": None, "target": None, "closeness": -0.2}
    factories.decision(factories.job(), candidates=[factories.candidate(machine, **unrated)])
    assert servers.considered(machine).main_rejection == "ranked lower"


def test_history_picks_the_column_of_the_server() -> None:
    first = factories.server()
    second = factories.server(of=first.platform)
    factories.frame(10.0, [0.1, 0.9])
    assert servers.history(second.name, SPAN).used.tolist() == [0.9]
