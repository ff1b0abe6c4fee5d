"""Jobs that continue where they were stopped: their launch has only the rest of the work."""

from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from apps.classification.selectors import current_profile_ids
from apps.inventory.models import Server, ServerState
from apps.inventory.services import set_server_state
from apps.scheduling.core.starts.estimates import KNOWN_PROGRESS
from apps.scheduling.models import Reservation
from apps.scheduling.selectors import claimed_jobs
from apps.scheduling.selectors.queue import holdings, recent_submissions, run_time_history
from apps.scheduling.services import release
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job
from apps.workloads.services import restart_jobs
from tests import factories
from tests.scheduling.gangs import at
from tests.scheduling.gangs import decide as decide_by
from tests.scheduling.world import build, known, state_and_reason, waiting

pytestmark = pytest.mark.django_db
NOW_S = 9000.0
BEST_EFFORT: dict[str, Any] = {"target": {"kind": "best_effort"}, "target_kind": "best_effort"}
WORK: dict[str, Any] = {"units_requested": 1, "input_bytes": 1440 * 10**9, "submitted_s": NOW_S}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def decide() -> None:
    decide_by(make_agent("agent-1"))


def resumed(done: float) -> tuple[Job, float, float]:
    """A job that was stopped when this share was done and runs again; its first predictions."""
    job = waiting(known(), **BEST_EFFORT, **WORK)
    decide()
    job.refresh_from_db()
    assert job.run_s is not None
    assert job.run_high_s is not None
    predicted = (job, job.run_s, job.run_high_s)
    release([job.id])
    Job.objects.filter(id=job.id).update(state="queued", progress=done)
    decide()
    Job.objects.filter(id=job.id).update(state="running", started_s=NOW_S)
    job.refresh_from_db()
    assert (job.attempts, job.progress) == (2, done)
    return predicted


def report(job: Job, progress: float, *, after_s: float) -> None:
    Job.objects.filter(id=job.id).update(progress=progress)
    at(NOW_S + after_s)


def test_the_predicted_run_of_a_resumed_job_is_that_of_the_work_that_is_left() -> None:
    build("a", cores=1)
    job, run_s, run_high_s = resumed(0.75)
    assert (job.run_s, job.run_high_s) == pytest.approx((run_s / 4.0, run_high_s / 4.0))
    assert job.progress_before == 0.75


def test_a_resumed_job_that_begins_again_has_the_whole_run_before_it() -> None:
    build("a", cores=1)
    job, run_s, run_high_s = resumed(0.75)
    Job.objects.filter(id=job.id).update(state="running")
    assert restart_jobs([job.id], at_s=NOW_S + 9.0, message="moved") == [job.id]
    job.refresh_from_db()
    assert (job.run_s, job.run_high_s) == pytest.approx((run_s, run_high_s))
    assert job.progress_before == 0.0


def test_a_job_that_had_almost_ended_is_predicted_to_run_for_a_moment() -> None:
    build("a", cores=1)
    job, run_s, _ = resumed(1.0)
    assert job.run_s == pytest.approx(run_s / 1000.0)
    assert holdings(NOW_S + 1.0)[0].progress == pytest.approx(1.0)


def test_the_progress_of_earlier_launches_tells_nothing_about_the_speed_of_this_one() -> None:
    build("a", cores=1)
    job, *_ = resumed(0.5)
    (held,) = holdings(NOW_S + 60.0)
    assert (held.elapsed_s, held.progress) == (60.0, 0.0)
    report(job, 0.6, after_s=600.0)
    (held,) = holdings(NOW_S + 600.0)
    assert held.progress == pytest.approx(0.2)  # 600 s for a fifth of the rest
    assert held.progress > KNOWN_PROGRESS


@pytest.mark.parametrize("is_predicted", [True, False])
def test_a_reservation_waits_for_the_rest_of_a_resumed_job(*, is_predicted: bool) -> None:
    build("a", cores=2)
    job, _, run_high_s = resumed(0.5)
    if not is_predicted:
        Job.objects.filter(id=job.id).update(run_high_s=None)
    report(job, 0.6, after_s=600.0)
    gang = waiting(
        known(), **BEST_EFFORT, **{**WORK, "units_requested": 2, "submitted_s": NOW_S - 700.0}
    )
    decide()
    by_progress_s = 600.0 + 1.25 * 600.0 * 0.4 / 0.1
    end_s = NOW_S + (run_high_s / 2.0 if is_predicted else by_progress_s)
    assert Reservation.objects.get(job_id=gang.id).start_s == pytest.approx(end_s)


def test_the_history_leaves_resumed_jobs_out() -> None:
    for _ in range(30):
        factories.job(
            state="succeeded", started_s=NOW_S - 100.0, finished_s=NOW_S - 1e-3,
            finished_at=timezone.now(), run_s=100.0, **BEST_EFFORT,
        )  # fmt: skip
    shared: dict[str, Any] = {"run_s": 200.0, "progress_before": 0.5, **BEST_EFFORT}
    factories.job(state="running", started_s=NOW_S - 10.0, progress=0.9, **shared)
    factories.job(
        state="succeeded", started_s=NOW_S - 10.0, finished_s=NOW_S - 1e-3,
        finished_at=timezone.now(), **shared,
    )  # fmt: skip
    history = run_time_history(NOW_S)
    assert history.seconds["best_effort"] == pytest.approx(100.0, rel=1e-3)
    fit = history.fits["best_effort"]
    assert float(np.exp(fit.offset + fit.slope * np.log(100.0))) == pytest.approx(100.0, rel=1e-3)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ({"kind": "completion_time", "seconds": 1.0}, "analytics"),
        ({"kind": "ips", "ips": 1e15}, "single_node"),
    ],
)
def test_a_stopped_job_whose_target_became_infeasible_runs_on_the_best_units(
    target: dict[str, Any], kind: str
) -> None:
    """Its profile was corrected while it ran: its work must not be lost for that."""
    build("a")
    of = factories.application(kind=kind)
    factories.profile(of)
    fields: dict[str, Any] = {"target": target, "target_kind": target["kind"]}
    fields["submitted_s"] = NOW_S
    new, stopped = waiting(of, **fields), waiting(of, **fields, attempts=1)
    decide()
    assert state_and_reason(new) == ("failed", "InfeasibleTarget")
    assert state_and_reason(stopped)[0] == "starting"
    stopped.refresh_from_db()
    assert (stopped.units, stopped.predicted) == (4, {})


def test_a_stopped_job_beyond_its_cost_ceiling_waits() -> None:
    build("a")
    of, fields = known(), {"constraints": {"max_cost": 50.0}, "submitted_s": NOW_S}
    new, stopped = waiting(of, **fields), waiting(of, **fields, attempts=1)
    decide()
    assert state_and_reason(new) == ("failed", "CostExceeded")
    assert state_and_reason(stopped) == ("queued", "CostExceeded")
    later = waiting(of, **fields)  # an equal new job does not wait behind it
    decide()
    assert state_and_reason(later) == ("failed", "CostExceeded")


def test_a_stopped_job_waits_for_closed_servers_on_which_its_target_can_be_met() -> None:
    build("a", "b")
    fields = {"target": {"kind": "completion_time", "seconds": 20.0}, "submitted_s": NOW_S}
    stopped = waiting(known(), **fields, attempts=1)  # it needs more units than one server has
    set_server_state(server_id=Server.objects.get(name="b").id, state=ServerState.CORDONED)
    decide()
    assert state_and_reason(stopped) == ("queued", "ServersClosed")
    set_server_state(server_id=Server.objects.get(name="b").id, state=ServerState.ACTIVE)
    decide()
    assert state_and_reason(stopped)[0] == "starting"


def test_a_running_job_whose_target_became_infeasible_grows_on_any_platform() -> None:
    """It has some of its units; the platform with the best performance may be full."""
    of = factories.application(kind="single_node")
    target = {"kind": "ips", "ips": 1e15}
    job = waiting(of, target=target, target_kind="ips", attempts=1, units=1, units_missing=2)
    Job.objects.filter(id=job.id).update(state="running")
    build("a")
    factories.profile(of)
    agent = make_agent("agent-1")
    agent._cluster.follow()
    sizer = agent._sizer
    (claimed,) = claimed_jobs([job.id], cluster_s=NOW_S, start_delay_s=0.0)
    (ready,), refused = sizer.size(sizer.profiled([claimed], current_profile_ids({of.id})))
    assert claimed.was_launched
    assert not refused
    assert (ready.sized.units, ready.sized.platforms) == (2, None)


def test_simulated_arrivals_run_as_long_as_the_whole_work_of_a_resumed_job() -> None:
    build("a", cores=1)
    _, run_s, run_high_s = resumed(0.75)
    (shape,) = recent_submissions({}, NOW_S + 100.0).shapes
    assert shape.run is not None
    assert (shape.run.value, shape.run.high) == pytest.approx((run_s, run_high_s))
