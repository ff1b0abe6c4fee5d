"""Transactions that once deadlocked: each test forces the order of locks that did it."""

from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.common.models import TransactionRetry
from apps.execution.models import Launch
from apps.execution.services.recovery import requeue_lost_jobs
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import Server, ServerState
from apps.operations.services import NewEvent, record_events
from apps.placement.models import PlannedMigration
from apps.placement.services.rebalancing.executor import _begin_next_plan, execute_plans
from apps.scheduling.selectors import claimed_jobs
from apps.workloads import services as workloads
from apps.workloads.core.spec import JobSpec, parse_job
from apps.workloads.models import Application, Job
from tests import factories
from tests.execution.migration_world import plane
from tests.placement import rebalancing_world
from tests.races import in_background, meanwhile, wait_for_a_waiter
from tests.scheduling.world import agent, build, known, waiting

pytestmark = pytest.mark.django_db(transaction=True)

EVENT = NewEvent(topic="jobs", kind="job.updated", subject="1")


def silent_before() -> datetime:
    return timezone.now() - timedelta(seconds=SILENT_S)


def spec(application: str) -> JobSpec:
    return parse_job({"application": application, "target": {"kind": "best_effort"}})


def submit(by: User, *applications: str) -> None:
    """Submit jobs of these applications in one request."""
    with transaction.atomic():
        workloads.submit_jobs(
            [spec(name) for name in applications],
            project=factories.project(),
            user=by,
            correlation_id="r",
        )


def test_requests_with_the_same_new_applications_in_opposite_order() -> None:
    factories.cluster()
    factories.project()
    by = factories.user("ada")
    both = in_background(lambda: submit(by, "a", "m", "z"), lambda: submit(by, "z", "m", "a"))
    with ExitStack() as under_way, transaction.atomic():
        Application.objects.create(name="m", kind="analytics")
        under_way.enter_context(both)
        # in the order of the requests, each would have inserted its first name by now
        wait_for_a_waiter(number=2)
        transaction.set_rollback(True)
    assert sorted(Application.objects.values_list("name", flat=True)) == ["a", "m", "z"]
    assert Job.objects.count() == 6


def test_two_batches_with_4000_new_applications_in_opposite_order() -> None:
    factories.cluster()
    factories.project()
    by = factories.user("ada")
    names = [f"app-{number:04}" for number in range(4_000)]
    both = in_background(lambda: submit(by, *names), lambda: submit(by, *reversed(names)))
    with ExitStack() as under_way, transaction.atomic():
        Application.objects.create(name=names[2_000], kind="analytics")
        under_way.enter_context(both)
        wait_for_a_waiter(number=2)
        transaction.set_rollback(True)
    assert Application.objects.count() == 4_000
    assert Job.objects.count() == 8_000
    assert not TransactionRetry.objects.exists()


def test_jobs_that_are_sent_to_profiling_and_jobs_profiled_meanwhile() -> None:
    factories.cluster()
    build("a")
    profiled, new = waiting(known()), waiting(factories.application())
    mine = agent("agent-1")
    mine._cluster.follow()
    claims = workloads.claim_waiting(agent="agent-1", limit=2)
    jobs = claimed_jobs(claims, cluster_s=7200.0, start_delay_s=0.0)
    with ExitStack() as under_way, transaction.atomic():
        Job.objects.select_for_update().get(pk=profiled.pk)
        under_way.enter_context(in_background(lambda: mine._profile(jobs)))
        wait_for_a_waiter()
        record_events([EVENT])
    new.refresh_from_db()
    profiled.refresh_from_db()
    assert (new.state, profiled.state, profiled.claimed_by) == ("profiling", "submitted", "")


def test_the_migrations_of_a_plan_and_the_deletion_of_one_of_its_jobs() -> None:
    servers = rebalancing_world.servers()
    ended, running = (
        rebalancing_world.running_job(name, (servers[0], 1)) for name in ("ended", "running")
    )
    rebalancing_world.activate(factories.user("ada"))
    rebalancing_world.create_plan(
        *(
            rebalancing_world.new_migration(place, job, servers[2])
            for place, job in enumerate((running, ended))
        ),
        approve=True,
    )
    _begin_next_plan()  # a plan that has begun is not re-based
    rebalancing_world.end_job(ended)
    with ExitStack() as under_way, transaction.atomic():
        PlannedMigration.objects.select_for_update().get(job=ended)
        under_way.enter_context(in_background(execute_plans))
        wait_for_a_waiter()
        record_events([EVENT])
    states = PlannedMigration.objects.order_by("ordinal").values_list("state", flat=True)
    assert list(states) == ["moving", "skipped"]


@pytest.mark.parametrize("first", [PlannedMigration, Launch])
def test_a_deletion_locks_before_the_job(first: type[PlannedMigration] | type[Launch]) -> None:
    servers = rebalancing_world.servers()
    job = rebalancing_world.running_job("ended", (servers[0], 1))
    rebalancing_world.activate(factories.user("ada"))
    rebalancing_world.create_plan(rebalancing_world.new_migration(0, job, servers[2]))
    rebalancing_world.end_job(job)
    with ExitStack() as under_way, transaction.atomic():
        first.objects.select_for_update().get(job=job)
        under_way.enter_context(in_background(lambda: workloads.delete_job(job.pk)))
        wait_for_a_waiter()
        Job.objects.select_for_update(nowait=True).get(pk=job.pk)
    assert not Job.objects.exists()


def test_a_job_that_loses_its_server_while_its_launch_starts() -> None:
    """The launch is made after the sweep has locked the launches, and starts before it ends."""
    factories.cluster()
    server = factories.server()
    job = factories.job(state="starting", attempts=1, placed_at=factories.MOMENT)
    factories.allocation(job, server, by=factories.decision(job), acquired_seq=0)
    Server.objects.filter(id=server.id).update(state=ServerState.DOWN)
    swept: list[int] = []

    def sweep() -> None:
        swept.append(requeue_lost_jobs(silent_before=silent_before()))

    with ExitStack() as under_way, transaction.atomic():
        Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        under_way.enter_context(in_background(sweep))
        wait_for_a_waiter()
        order = {"parts": [[server.id, 1]]}
        launch = meanwhile(lambda: factories.launch(job, state="requested", order=order))
        start = lambda: plane().report_launches({launch.id: 7200.0}, ())  # noqa: E731
        under_way.enter_context(in_background(start))
        wait_for_a_waiter(number=2)
    job.refresh_from_db()
    assert (swept, job.state) == ([0], "running")
    assert requeue_lost_jobs(silent_before=silent_before()) == 1
    job.refresh_from_db()
    assert (job.state, Launch.objects.get().state) == ("queued", "ended")
