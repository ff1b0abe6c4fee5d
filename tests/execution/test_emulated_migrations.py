"""Migrations on the emulated servers."""

from dataclasses import replace
from typing import Any

import pytest

from apps.execution.backends.emulated.emulator import PATIENCE_S, Emulator
from apps.execution.backends.emulated.port import LaunchOrder
from apps.execution.core.migration import MigrationOrder, MigrationReport, migration_s
from tests.execution.emulated_plane import AwayError, MemoryPlane, emulator, launch, site, sort

MOVE = MigrationOrder(migration=70, launch=1, from_server=101, to_server=102, units=2)


def job(number: int = 1, **more: Any) -> LaunchOrder:
    """A job of several hours on two units of the first server."""
    return launch(number, seconds=1e5, **({"units": 2} | more))


def plane(*units: int, moves: list[MigrationOrder] | None = None, **more: Any) -> MemoryPlane:
    orders = [MOVE] if moves is None else moves
    return MemoryPlane(site(*(units or (4, 4))), wanted_moves=orders, **more)


def reported(control_plane: MemoryPlane) -> list[tuple[int, str]]:
    return [(report.migration, report.outcome.value) for report in control_plane.moves]


def used(backend: Emulator) -> list[int]:
    return backend._engine.used_units.tolist()


def test_units_migrate_while_the_job_runs() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    assert reported(control_plane) == [(70, "started")]
    assert used(backend) == [2, 2]
    backend.tick(20.0)
    assert reported(control_plane) == [(70, "started"), (70, "done")]
    assert used(backend) == [0, 2]
    assert (backend.running, control_plane.ended) == (1, [])


def test_the_pause_depends_on_the_memory_in_use() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    for tick in range(300):
        backend.tick(10.0 + 0.1 * tick)
    begun, done = control_plane.moves
    expected = migration_s(2 * sort().demand.memory_bytes, 4e8, 4e8)
    assert done.at_s - begun.at_s == pytest.approx(expected, rel=0.5)
    assert done.at_s - begun.at_s != pytest.approx(expected, rel=1e-6)


def test_the_same_migration_has_the_same_duration() -> None:
    spans = []
    for _ in range(2):
        control_plane = plane(waiting=[job()])
        backend = emulator(control_plane)
        backend.tick(10.0)
        backend.tick(30.0)
        spans.append([report.at_s for report in control_plane.moves])
    assert spans[0] == spans[1]


def test_leases_of_running_migrations_are_renewed() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    backend.tick(10.1)
    assert control_plane.moving == {70}
    assert reported(control_plane) == [(70, "started")]


def test_a_job_reports_from_its_new_server_after_servers_are_added() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    backend.tick(20.0)
    control_plane.place = site(4, 4, 4, version=2)
    backend.tick(20.1)
    assert used(backend) == [0, 2, 0]
    assert backend.running == 1


def test_a_migration_continues_when_servers_are_added() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    control_plane.place = site(4, 4, 4, version=2)
    backend.tick(10.1)
    assert used(backend) == [2, 2, 0]
    backend.tick(20.0)
    assert reported(control_plane) == [(70, "started"), (70, "done")]
    assert used(backend) == [0, 2, 0]


def test_a_migration_fails_if_its_server_is_removed() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    control_plane.place = site(4, version=2)
    backend.tick(10.1)
    assert reported(control_plane) == [(70, "started"), (70, "failed")]
    assert control_plane.moves[-1].message == "server 102 is not emulated"
    assert (backend.running, used(backend)) == (1, [2])


def test_the_next_process_restarts_a_migration() -> None:
    first = plane(waiting=[job()])
    emulator(first).tick(10.0)
    # after a kill: the launch still names the old servers, and the claim has expired
    second = plane(live=[job(done_share=0.1)])
    backend = emulator(second, wall_s=20.0)
    backend.tick(20.1)
    backend.tick(30.0)
    assert reported(second) == [(70, "started"), (70, "done")]
    assert used(backend) == [0, 2]


@pytest.mark.parametrize("how", ["cancelled", "given_up"])
def test_a_job_cancelled_during_a_migration_leaves_both_servers(how: str) -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    setattr(control_plane, how, [1])
    control_plane.wanted_moves = []
    backend.tick(10.1)
    backend.tick(20.0)
    assert used(backend) == [0, 0]
    assert reported(control_plane) == [(70, "started")]
    assert control_plane.moving == set()


def test_a_job_that_ends_during_a_migration_reports_only_its_end() -> None:
    control_plane = plane(waiting=[launch(1, seconds=10.0, units=4)])
    backend = emulator(control_plane)
    backend.tick(10.0)
    control_plane.wanted_moves = []
    backend.tick(100.0)
    assert used(backend) == [0, 0]
    assert [end.outcome for end in control_plane.ended] == ["finished"]
    assert (reported(control_plane), control_plane.moving) == ([(70, "started")], set())


def test_a_migration_waits_for_units_still_in_use() -> None:
    other = launch(2, seconds=60.0, units=4, parts=((102, 4),))
    control_plane = plane(waiting=[job(), other])
    backend = emulator(control_plane)
    backend.tick(10.0)
    assert reported(control_plane) == []
    backend.tick(14.0)
    backend.tick(14.1)
    assert reported(control_plane) == [(70, "started")]


def test_a_migration_fails_if_its_units_stay_in_use() -> None:
    other = launch(2, seconds=1e7, units=4, parts=((102, 4),))
    control_plane = plane(waiting=[job(), other])
    backend = emulator(control_plane)
    backend.tick(10.0)
    backend.tick(9.0 + PATIENCE_S)
    assert reported(control_plane) == []
    backend.tick(10.0 + PATIENCE_S)
    assert reported(control_plane) == [(70, "failed")]
    assert backend.running == 2


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (replace(MOVE, to_server=999), "server 999 is not emulated"),
        (replace(MOVE, units=3), "job 1 has 2 units on server 0, not 3"),
    ],
)
def test_an_impossible_migration_fails_with_a_reason(order: MigrationOrder, message: str) -> None:
    control_plane = plane(moves=[order], waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    assert [(x.outcome.value, x.message) for x in control_plane.moves] == [("failed", message)]
    assert backend.running == 1


def test_a_migration_completed_during_an_outage_is_reported_once() -> None:
    control_plane = plane(waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    control_plane.is_away = True
    with pytest.raises(AwayError):
        backend.tick(20.0)
    control_plane.is_away = False
    backend.tick(20.1)
    backend.tick(20.2)
    assert reported(control_plane) == [(70, "started"), (70, "done")]
    assert control_plane.moves[-1].at_s < 1200.0


class Forgetful(MemoryPlane):
    """Rejects reports of migrations while it is deaf."""

    is_deaf = False

    def report_migrations(self, reports: Any) -> None:
        if self.is_deaf:
            raise AwayError
        super().report_migrations(reports)


def test_a_completed_migration_with_an_unconfirmed_report_is_not_restarted() -> None:
    control_plane = Forgetful(site(4, 4), wanted_moves=[MOVE], waiting=[job()])
    backend = emulator(control_plane)
    backend.tick(10.0)
    control_plane.is_deaf = True
    with pytest.raises(AwayError):
        backend.tick(20.0)
    assert control_plane.moving == {70}
    control_plane.is_deaf = False
    backend.tick(20.1)
    assert reported(control_plane) == [(70, "started"), (70, "done")]
    assert used(backend) == [0, 2]


def test_counters_are_reported_of_every_job() -> None:
    control_plane = plane(moves=[], waiting=[job(tasks=8)])
    backend = emulator(control_plane)
    backend.tick(0.0)
    counters = control_plane.jobs[1].counters
    assert counters is not None
    truth = sort()
    assert counters.memory_rate == pytest.approx(3e5 * truth.phases.caused[0, 1], rel=0.3)
    assert counters.network_wait == pytest.approx(truth.phases.caused[0, 8] / 100.0, rel=0.3)
    assert counters.disk_wait == pytest.approx(truth.phases.caused[0, 9] / 100.0, rel=0.3)
    assert counters.traffic_bps == pytest.approx(truth.demand.network_bps, rel=0.3)


def test_reports_are_plain_values() -> None:
    control_plane = plane(waiting=[job()])
    emulator(control_plane).tick(10.0)
    (report,) = control_plane.moves
    assert report == MigrationReport(70, 600.0, report.outcome)
