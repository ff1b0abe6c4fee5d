"""Checks after a replay: each detects its violation, and a consistent database passes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from apps.accounts.models import Project
from apps.classification.models import PendingFold
from apps.execution.models import Launch, Migration
from apps.inventory.models import Change, Platform, Rack, ResourceUnit, Server
from apps.operations.models import Event, Operation
from apps.profiling.models import ProfilingRun
from apps.scheduling.models import Allocation, Decision
from apps.testbed.core.replay_state import ReplayState
from apps.testbed.management.commands.verify_replay import count_violations
from apps.testbed.management.replay.state_file import save_state
from apps.testbed.selectors.replay import (
    ReplayCounts,
    check_findings,
    one_snapshot,
    replay_counts,
)
from apps.workloads.models import Application, Job
from tests import factories
from tests.races import meanwhile

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATE = ReplayState("r1", "d", "day", units=4, services=0.0, seed=1, anchor_s=0.0)

pytestmark = pytest.mark.django_db


class Scene:
    """A server of four units, and jobs on it."""

    def __init__(self) -> None:
        user = get_user_model().objects.create(username="u")
        self.project = Project.objects.create(name="p")
        self.user = user
        self.application = Application.objects.create(name="a", kind="analytics")
        self.sequence = count(1)
        platform = Platform.objects.create(
            name="x", rank=0, cores=4, memory_bytes=8, network_bps=8, storage_bytes=8,
            idle_watts=1, peak_watts=2,
        )  # fmt: skip
        rack = Rack.objects.create(name="r")
        self.server = Server.objects.create(
            name="s1", platform=platform, rack=rack, cores=4, memory_bytes=8, network_bps=8,
            storage_bytes=8, idle_watts=1, peak_watts=2,
        )  # fmt: skip
        self.units = [
            ResourceUnit.objects.create(server=self.server, core=core) for core in range(4)
        ]

    def job(self, state: str, **fields: Any) -> Job:
        number = next(self.sequence)
        ended = state in {"succeeded", "failed", "cancelled"}
        job = Job.objects.create(
            name=f"j{number}", project=self.project, application=self.application,
            created_by=self.user, correlation_id="c", target={"kind": "best_effort"},
            target_kind="best_effort", state=state, submitted_s=0.0,
            finished_s=9.0 if ended else None,
            **{"annotations": {"replay": "r1", "replay_key": f"t{number}", "trace_index": number}}
            | fields,
        )  # fmt: skip
        self.event(job, "job.submitted")
        if ended:
            self.event(job, f"job.{state}")
        return job

    def event(self, job: Job, kind: str) -> None:
        Event.objects.create(
            seq=next(self.sequence), at=NOW, topic="jobs", kind=kind, subject=str(job.pk)
        )

    def allocate(self, job: Job, units: list[int], *, is_released: bool = False) -> Allocation:
        ids = [self.units[unit].pk for unit in units]
        decision = Decision.objects.create(
            job=job, at=NOW, cluster_s=0, agent="a", policy="p", policy_version="1",
            code_version="1", seed=1, snapshot=0, outcome="placed", reason_code="x",
            units=len(ids), units_won=len(ids), sample_size=8, examined=8, eligible=8,
            servers_total=1, probability=0.1, elapsed_s=0.0,
        )  # fmt: skip
        allocation = Allocation.objects.create(
            id=next(self.sequence), job=job, decision=decision, server_id=self.server.pk,
            unit_ids=ids, cores=len(ids), caused=[], acquired_at=NOW, acquired_s=0.0,
            acquired_seq=self.change("claim", ids),
        )  # fmt: skip
        if is_released:
            self.release(allocation)
        else:
            ResourceUnit.objects.filter(pk__in=ids).update(allocation_id=allocation.pk)
            self.server.used_cores += len(ids)
            self.server.save()
        return allocation

    def release(self, allocation: Allocation) -> None:
        allocation.released_seq = self.change("release", allocation.unit_ids)
        allocation.released_at, allocation.released_s = NOW, 1.0
        allocation.save()

    def change(self, kind: str, unit_ids: list[int]) -> int:
        seq = next(self.sequence)
        Change.objects.create(
            seq=seq, kind=kind, at=NOW, cluster_s=0.0, server_id=self.server.pk, unit_ids=unit_ids
        )
        return seq

    def launch(self, job: Job, state: str, **fields: Any) -> Launch:
        return Launch.objects.create(
            job=job, attempt=1, backend="emulated", state=state, order={}, **fields
        )

    def running(self, units: list[int]) -> Job:
        job = self.job("running")
        self.allocate(job, units)
        self.launch(job, "running", claimed_until=datetime.now(UTC) + timedelta(hours=1))
        return job


@pytest.fixture
def scene() -> Scene:
    return Scene()


def broken() -> dict[str, tuple[str, ...]]:
    return {
        finding.check: finding.examples
        for finding in check_findings(grace_s=60.0)
        if finding.violations
    }


def test_a_sound_database_breaks_nothing(scene: Scene) -> None:
    done = scene.job("succeeded")
    scene.allocate(done, [0, 1], is_released=True)
    scene.launch(done, "ended")
    scene.running([1, 2])
    scene.job("queued")
    assert broken() == {}


def test_an_empty_database_breaks_nothing() -> None:
    assert broken() == {}


def test_finds_a_unit_held_twice_at_once(scene: Scene) -> None:
    first, second = scene.job("succeeded"), scene.job("succeeded")
    allocation = scene.allocate(first, [0, 1], is_released=True)
    two = scene.allocate(second, [1, 2], is_released=True)
    Allocation.objects.filter(pk=allocation.pk).update(released_seq=two.acquired_seq + 1)
    assert broken() == {
        "no unit was held twice at once (allocations)": (
            f"unit {scene.units[1].pk} was given to allocation {two.pk} at {two.acquired_seq} "
            "while another held it",
        )
    }


def test_finds_a_unit_held_by_a_long_earlier_allocation(scene: Scene) -> None:
    jobs = [scene.job("succeeded") for _ in range(3)]
    long, _, last = (scene.allocate(job, [0], is_released=True) for job in jobs)
    Allocation.objects.filter(pk=long.pk).update(released_seq=last.released_seq)
    (examples,) = broken().values()
    assert len(examples) == 2


def test_finds_two_claims_in_a_row_in_the_change_log(scene: Scene) -> None:
    scene.change("claim", [scene.units[0].pk])
    scene.change("claim", [scene.units[0].pk])
    assert list(broken()) == ["no unit was claimed twice in a row (change log)"]


def test_finds_a_unit_whose_column_and_allocation_differ(scene: Scene) -> None:
    scene.running([0])
    ResourceUnit.objects.filter(pk=scene.units[0].pk).update(allocation_id=None)
    Server.objects.update(used_cores=0)
    assert list(broken()) == ["units and allocations name the same holders"]


def test_finds_a_server_that_counts_wrongly(scene: Scene) -> None:
    scene.running([0])
    Server.objects.update(used_cores=2)
    assert list(broken()) == ["servers count the cores their units show"]


def test_finds_units_left_held_by_an_ended_job(scene: Scene) -> None:
    job = scene.job("succeeded")
    scene.allocate(job, [3])
    assert list(broken()) == ["no job that does not run holds units"]


def test_finds_running_jobs_without_units_and_without_launch(scene: Scene) -> None:
    scene.job("running")
    assert list(broken()) == ["every running job holds units", "every running job has a launch"]


def test_finds_a_launch_that_outlives_its_job(scene: Scene) -> None:
    scene.launch(scene.job("cancelled"), "requested")
    assert list(broken()) == ["no launch outlives its job"]


@pytest.mark.parametrize(("age_s", "expected"), [(30, 0), (90, 1), (None, 1)])
def test_finds_running_launches_without_an_owner(
    age_s: int | None, expected: int, scene: Scene
) -> None:
    scene.running([0])
    until = None if age_s is None else datetime.now(UTC) - timedelta(seconds=age_s)
    Launch.objects.update(claimed_until=until)
    assert list(broken()) == ["every running launch has an owner"] * expected


def test_finds_jobs_that_wait_for_a_profile_nobody_measures(scene: Scene) -> None:
    scene.job("profiling")
    assert list(broken()) == ["every job that waits for a profile has a run or a fold"]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_job_whose_application_is_measured_is_looked_after(scene: Scene, state: str) -> None:
    scene.job("profiling")
    factories.profiling_run(scene.application, state=state)
    assert broken() == {}


def test_a_job_whose_profile_is_about_to_be_drawn_is_looked_after(scene: Scene) -> None:
    scene.job("profiling")
    PendingFold.objects.create(application=scene.application)
    assert broken() == {}


@pytest.mark.parametrize("status", ["pending", "running"])
@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_finds_an_operation_that_outlives_its_profiling_run(
    scene: Scene, state: str, status: str
) -> None:
    operation = Operation.objects.create(kind="profiling", status=status)
    run = factories.profiling_run(scene.application, state=state, operation=operation)
    assert broken() == {
        "no operation outlives its profiling run": (
            f"operation {operation.pk} is {status}, its profiling run {run.pk} is {state}",
        )
    }


def test_finds_an_operation_whose_profiling_run_is_gone(scene: Scene) -> None:
    Operation.objects.create(kind="profiling", status="running")
    assert list(broken()) == ["no operation outlives its profiling run"]


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("profiling", "running", "running"),
        ("profiling", "cancelled", "running"),
        ("profiling", "succeeded", "done"),
        ("classification.reclassify", "running", "done"),
    ],
)
def test_an_operation_as_its_run_or_of_something_else_breaks_nothing(
    scene: Scene, kind: str, status: str, state: str
) -> None:
    operation = Operation.objects.create(kind=kind, status=status)
    factories.profiling_run(scene.application, state=state, operation=operation)
    assert broken() == {}


@pytest.mark.parametrize(("age_s", "expected"), [(30, 0), (90, 1)])
def test_finds_leases_that_ran_out_longer_ago_than_the_grace(
    age_s: int, expected: int, scene: Scene
) -> None:
    until = datetime.now(UTC) - timedelta(seconds=age_s)
    scene.job("queued", claimed_by="agent-1", claimed_until=until)
    ProfilingRun.objects.create(
        application=scene.application, state="queued", plan={}, seed=1, requested_s=0.0
    )
    assert len(broken()) == expected


def test_finds_a_job_that_ended_twice(scene: Scene) -> None:
    job = scene.job("succeeded")
    scene.event(job, "job.succeeded")
    assert list(broken()) == ["no job ended twice"]


def test_finds_a_job_whose_events_tell_another_state(scene: Scene) -> None:
    job = scene.job("queued")
    scene.event(job, "job.failed")
    (examples,) = broken().values()
    assert examples == (f"job {job.name} is queued, its events say failed",)


def test_finds_a_replayed_job_that_is_there_twice(scene: Scene) -> None:
    marks = {"replay": "r1", "replay_key": "t1", "trace_index": 0}
    scene.job("queued", annotations=marks)
    scene.job("queued", annotations=marks)
    (examples,) = broken().values()
    assert examples == ("job t1 of replay r1 is there 2 times",)


def test_finds_a_decision_that_counts_units_it_did_not_get(scene: Scene) -> None:
    scene.running([0])
    Decision.objects.update(units_won=3)
    assert list(broken()) == ["decisions and allocations count the same units"]


def moving(scene: Scene, **fields: Any) -> Migration:
    """A job that is migrating from unit 0 to unit 1."""
    job = scene.running([0])
    source = Allocation.objects.get(job=job)
    target = scene.allocate(job, [1])
    Allocation.objects.filter(pk=target.pk).update(
        moved_from=source.pk, decision=source.decision_id
    )
    Decision.objects.filter(pk=target.decision_id).delete()
    return Migration.objects.create(
        job=job, launch=job.launches.get(), source_allocation_id=source.pk,
        target_allocation_id=target.pk, from_server_id=scene.server.pk,
        to_server_id=scene.server.pk, units=1, predicted_s=1.0, requested_s=0.0,
        **{"state": "running"} | fields,
    )  # fmt: skip


def test_a_job_on_its_way_breaks_nothing(scene: Scene) -> None:
    moving(scene)
    assert broken() == {}


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_finds_what_is_reserved_for_a_migration_that_is_over(scene: Scene, state: str) -> None:
    moving(scene, state=state)
    assert list(broken()) == ["every reservation belongs to a migration"]


def test_finds_a_migration_that_has_lost_a_side(scene: Scene) -> None:
    migration = moving(scene)
    scene.release(Allocation.objects.get(pk=migration.source_allocation_id))
    ResourceUnit.objects.filter(allocation_id=migration.source_allocation_id).update(
        allocation_id=None
    )
    Server.objects.update(used_cores=1)
    assert broken() == {
        "every migration under way holds both sides": (
            f"migration {migration.pk} is running, but its job does not hold both sides",
        )
    }


def test_finds_a_migration_that_outlives_its_launch(scene: Scene) -> None:
    migration = moving(scene)
    Launch.objects.create(
        job=migration.job, attempt=2, backend="emulated", state="ended", order={}
    )
    Migration.objects.update(launch=Launch.objects.get(attempt=2))
    (examples,) = broken().values()
    assert examples == (f"migration {migration.pk} is running, but its launch is ended",)


def test_finds_a_job_that_holds_both_sides_after_it_moved(scene: Scene) -> None:
    migration = moving(scene, state="done")
    Allocation.objects.filter(pk=migration.target_allocation_id).update(moved_s=5.0)
    assert list(broken()) == ["migrated allocations match their source"]


def test_finds_a_move_to_more_units_than_were_held(scene: Scene) -> None:
    migration = moving(scene)
    units = [scene.units[1].pk, scene.units[2].pk]
    Allocation.objects.filter(pk=migration.target_allocation_id).update(unit_ids=units)
    ResourceUnit.objects.filter(pk=units[1]).update(allocation_id=migration.target_allocation_id)
    Server.objects.update(used_cores=3)
    assert list(broken()) == ["migrated allocations match their source"]


@pytest.mark.parametrize("parts", [[[0, 1]], [[0, 2]], []])
def test_finds_a_launch_that_names_other_units_than_its_job_holds(
    scene: Scene, parts: list[list[int]]
) -> None:
    job = scene.running([0])
    server = scene.server.pk
    Launch.objects.update(order={"parts": [[server, 1]]})
    assert broken() == {}
    named = [[server if units > 1 else server + 1, units] for _, units in parts]
    Launch.objects.filter(job=job).update(order={"parts": named})
    assert list(broken()) == ["launches name the units their jobs hold"]


def test_finds_a_migration_whose_lease_ran_out(scene: Scene) -> None:
    until = datetime.now(UTC) - timedelta(seconds=90)
    moving(scene, claimed_until=until)
    (examples,) = broken().values()
    assert examples[0].startswith("migration ")


def test_counts_jobs_by_state_and_by_event(scene: Scene) -> None:
    scene.job("succeeded")
    scene.job("queued")
    scene.job("cancelled", annotations={"replay": "r1", "replay_key": "s1"})
    scene.job("queued", annotations={})
    counts = replay_counts("r1")
    assert counts.by_state == {"succeeded": 1, "queued": 1, "cancelled": 1}
    assert counts.trace_by_state == {"succeeded": 1, "queued": 1}
    assert (counts.events, counts.ended_events) == (3, 2)
    assert (counts.ended, counts.trace_ended) == (2, 1)


SOUND = ReplayCounts({"succeeded": 5}, {"succeeded": 4}, events=5, ended_events=5)


@pytest.mark.parametrize(
    ("state", "counts", "words"),
    [
        (replace(STATE, accepted=5), SOUND, None),
        (replace(STATE, accepted=6), SOUND, "accepted 6 jobs, the database has 5"),
        (replace(STATE, accepted=4), SOUND, "accepted 4 jobs, the database has 5"),
        (replace(STATE, accepted=5), replace(SOUND, events=4), "4 submission events"),
        (replace(STATE, accepted=5), replace(SOUND, ended_events=4), "4 have an event"),
        (replace(STATE, accepted=5, rejected=1), SOUND, "refused 1 jobs"),
        (
            replace(STATE, accepted=5),
            replace(SOUND, trace_by_state={"succeeded": 3, "queued": 1}),
            "1 jobs of the trace have not ended",
        ),
        (
            replace(STATE, accepted=5),
            replace(SOUND, trace_by_state={"succeeded": 3}),
            "the file has 4 jobs, the database has 3",
        ),
    ],
)
def test_says_which_counts_do_not_add_up(
    state: ReplayState, counts: ReplayCounts, words: str | None
) -> None:
    violations = count_violations((state, state), counts, 4, is_complete=True)
    assert len(violations) == (words is not None)
    assert (words or "") in " ".join(violations)


def test_a_request_in_flight_may_be_counted_or_not() -> None:
    state = replace(STATE, accepted=3, sending=2)
    assert count_violations((state, state), SOUND, None, is_complete=False) == []


def test_a_replay_going_on_while_it_is_checked_adds_up() -> None:
    states = replace(STATE, accepted=3), replace(STATE, accepted=6)
    assert count_violations(states, SOUND, None, is_complete=False) == []


def test_the_command_reports_and_passes(scene: Scene, tmp_path: Path) -> None:
    scene.job("succeeded")
    save_state(tmp_path / "replay.json", replace(STATE, accepted=1, next=1))
    output = StringIO()
    call_command("verify_replay", state=tmp_path / "replay.json", complete=True, stdout=output)
    assert "All checks passed." in output.getvalue()
    assert "trace jobs by state: 1 succeeded" in output.getvalue()


def test_the_command_fails_with_a_list(scene: Scene, tmp_path: Path) -> None:
    scene.job("running")
    save_state(tmp_path / "replay.json", replace(STATE, accepted=1, next=1))
    with pytest.raises(CommandError, match=r"3 checks failed:\n  every running job holds units"):
        call_command(
            "verify_replay", state=tmp_path / "replay.json", complete=True, stdout=StringIO()
        )


def test_the_command_needs_a_replay_to_call_it_complete(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no replay to check"):
        call_command("verify_replay", state=tmp_path / "no.json", complete=True, stdout=StringIO())


@pytest.mark.django_db(transaction=True)
def test_the_checks_see_one_moment(scene: Scene) -> None:
    with one_snapshot():
        before = replay_counts("r1").by_state
        meanwhile(lambda: scene.job("queued").pk)
        assert replay_counts("r1").by_state == before == {}
    assert replay_counts("r1").by_state == {"queued": 1}


def test_checks_inside_a_transaction_see_what_it_did(scene: Scene) -> None:
    scene.job("queued")
    with one_snapshot():
        assert replay_counts("r1").by_state == {"queued": 1}
