"""Migrations on the emulated servers."""

from dataclasses import replace
from typing import Any

import pytest

from apps.execution.backends.emulated.emulator import PATIENCE_S, Emulator
from apps.execution.backends.emulated.port import LaunchOrder, MoveOrder, MoveReport
from apps.execution.core.migration import move_s
from tests.execution.emulated_plane import AwayError, MemoryPlane, site
from tests.execution.test_emulated_backend import emulator, launch, sort

MOVE = MoveOrder(migration=70, launch=1, from_server=101, to_server=102, units=2)


def job(number: int = 1, **more: Any) -> LaunchOrder:
    """Work for hours, on two units of the first server."""
    return launch(number, seconds=1e5, **({"units": 2} | more))


def plane(*units: int, moves: list[MoveOrder] | None = None, **more: Any) -> MemoryPlane:
    wanted = [MOVE] if moves is None else moves
    return MemoryPlane(site(*(units or (4, 4))), wanted_moves=wanted, **more)


def told(one: MemoryPlane) -> list[tuple[int, str]]:
    return [(report.migration, report.outcome.value) for report in one.moves]


def used(one: Emulator) -> list[int]:
    return one._engine.used_units.tolist()


def test_units_move_while_the_job_goes_on() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    assert told(seen) == [(70, "started")]
    assert used(one) == [2, 2]
    one.tick(20.0)
    assert told(seen) == [(70, "started"), (70, "done")]
    assert used(one) == [0, 2]
    assert (one.running, seen.ended) == (1, [])


def test_how_long_they_stand_still_follows_the_memory_in_use() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    for tick in range(300):
        one.tick(10.0 + 0.1 * tick)
    begun, done = seen.moves
    expected = move_s(2 * sort().demand.memory_bytes, 4e8, 4e8)
    assert done.at_s - begun.at_s == pytest.approx(expected, rel=0.5)
    assert done.at_s - begun.at_s != pytest.approx(expected, rel=1e-6)


def test_the_same_migration_takes_as_long_again() -> None:
    spans = []
    for _ in range(2):
        seen = plane(waiting=[job()])
        one = emulator(seen)
        one.tick(10.0)
        one.tick(30.0)
        spans.append([report.at_s for report in seen.moves])
    assert spans[0] == spans[1]


def test_the_claims_of_what_is_under_way_are_kept() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    one.tick(10.1)
    assert seen.moving == {70}
    assert told(seen) == [(70, "started")]


def test_the_job_reports_from_where_it_stands_after_servers_came() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    one.tick(20.0)
    seen.place = site(4, 4, 4, version=2)
    one.tick(20.1)
    assert used(one) == [0, 2, 0]
    assert one.running == 1


def test_a_move_goes_on_when_servers_are_added_under_way() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    seen.place = site(4, 4, 4, version=2)
    one.tick(10.1)
    assert used(one) == [2, 2, 0]
    one.tick(20.0)
    assert told(seen) == [(70, "started"), (70, "done")]
    assert used(one) == [0, 2, 0]


def test_a_move_whose_server_is_taken_away_under_way_fails() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    seen.place = site(4, version=2)
    one.tick(10.1)
    assert told(seen) == [(70, "started"), (70, "failed")]
    assert seen.moves[-1].message == "server 102 is not emulated"
    assert (one.running, used(one)) == (1, [2])


def test_a_process_that_follows_one_that_died_moves_it_again() -> None:
    first = plane(waiting=[job()])
    emulator(first).tick(10.0)
    # killed: the launch still names its old place, the claim has run out
    second = plane(live=[job(done_share=0.1)])
    one = emulator(second, wall_s=20.0)
    one.tick(20.1)
    one.tick(30.0)
    assert told(second) == [(70, "started"), (70, "done")]
    assert used(one) == [0, 2]


@pytest.mark.parametrize("how", ["cancelled", "given_up"])
def test_a_job_stopped_under_way_leaves_both_servers(how: str) -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    setattr(seen, how, [1])
    seen.wanted_moves = []
    one.tick(10.1)
    one.tick(20.0)
    assert used(one) == [0, 0]
    assert told(seen) == [(70, "started")]
    assert seen.moving == set()


def test_a_job_that_ends_under_way_tells_its_end_only() -> None:
    seen = plane(waiting=[launch(1, seconds=10.0, units=4)])
    one = emulator(seen)
    one.tick(10.0)
    seen.wanted_moves = []
    one.tick(100.0)
    assert used(one) == [0, 0]
    assert [end.outcome for end in seen.ended] == ["finished"]
    assert (told(seen), seen.moving) == ([(70, "started")], set())


def test_units_another_job_still_holds_are_waited_for() -> None:
    other = launch(2, seconds=60.0, units=4, parts=((102, 4),))
    seen = plane(waiting=[job(), other])
    one = emulator(seen)
    one.tick(10.0)
    assert told(seen) == []
    one.tick(14.0)
    one.tick(14.1)
    assert told(seen) == [(70, "started")]


def test_units_held_too_long_fail_the_migration() -> None:
    other = launch(2, seconds=1e7, units=4, parts=((102, 4),))
    seen = plane(waiting=[job(), other])
    one = emulator(seen)
    one.tick(10.0)
    one.tick(9.0 + PATIENCE_S)
    assert told(seen) == []
    one.tick(10.0 + PATIENCE_S)
    assert told(seen) == [(70, "failed")]
    assert one.running == 2


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (replace(MOVE, to_server=999), "server 999 is not emulated"),
        (replace(MOVE, units=3), "job 1 has 2 units on server 0, not 3"),
    ],
)
def test_a_migration_that_cannot_be_made_fails_with_its_reason(
    order: MoveOrder, message: str
) -> None:
    seen = plane(moves=[order], waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    assert [(x.outcome.value, x.message) for x in seen.moves] == [("failed", message)]
    assert one.running == 1


def test_what_arrived_while_the_database_was_away_is_told_once() -> None:
    seen = plane(waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    seen.is_away = True
    with pytest.raises(AwayError):
        one.tick(20.0)
    seen.is_away = False
    one.tick(20.1)
    one.tick(20.2)
    assert told(seen) == [(70, "started"), (70, "done")]
    assert seen.moves[-1].at_s < 1200.0


class Forgetful(MemoryPlane):
    """Takes in no report of a migration while it is deaf."""

    is_deaf = False

    def report_moves(self, reports: Any) -> None:
        if self.is_deaf:
            raise AwayError
        super().report_moves(reports)


def test_an_arrival_that_was_not_taken_in_is_not_begun_again() -> None:
    seen = Forgetful(site(4, 4), wanted_moves=[MOVE], waiting=[job()])
    one = emulator(seen)
    one.tick(10.0)
    seen.is_deaf = True
    with pytest.raises(AwayError):
        one.tick(20.0)
    assert seen.moving == {70}
    seen.is_deaf = False
    one.tick(20.1)
    assert told(seen) == [(70, "started"), (70, "done")]
    assert used(one) == [0, 2]


def test_counters_are_reported_of_every_job() -> None:
    seen = plane(moves=[], waiting=[job(tasks=8)])
    one = emulator(seen)
    one.tick(0.0)
    counters = seen.jobs[1].counters
    assert counters is not None
    truth = sort()
    assert counters.memory_rate == pytest.approx(3e5 * truth.phases.caused[0, 1], rel=0.3)
    assert counters.network_wait == pytest.approx(truth.phases.caused[0, 8] / 100.0, rel=0.3)
    assert counters.disk_wait == pytest.approx(truth.phases.caused[0, 9] / 100.0, rel=0.3)
    assert counters.traffic_bps == pytest.approx(truth.demand.network_bps, rel=0.3)


def test_reports_are_plain_values() -> None:
    seen = plane(waiting=[job()])
    emulator(seen).tick(10.0)
    (report,) = seen.moves
    assert report == MoveReport(70, 600.0, report.outcome)
