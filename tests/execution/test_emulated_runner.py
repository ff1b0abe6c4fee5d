import logging
from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from apps.common.infrastructure.stop_signal import StopSignal
from apps.execution.backends.emulated.emulator import Emulator
from apps.execution.backends.emulated.port import NoServersError, Site
from apps.execution.backends.runner import DatabaseAwayError, Environment, run
from tests.execution.emulated_plane import AwayError, MemoryPlane, launch, site


class Pause(StopSignal):
    """A fake clock that advances instead of sleeping and calls functions at given seconds."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.world = world

    def wait(self, timeout_s: float) -> bool:
        self.world.now_s += timeout_s
        self.world.plane.is_away = self.world.away[0] <= self.world.now_s < self.world.away[1]
        if self.world.now_s >= self.world.until_s:
            self.set()
        return self.is_set()


@dataclass
class World:
    """A plane whose database is away for a while, and a clock."""

    plane: MemoryPlane
    away: tuple[float, float] = (1e9, 1e9)
    until_s: float = 60.0
    now_s: float = 0.0
    reconnects: list[float] = field(default_factory=list)

    def outside(self) -> Environment:
        return Environment(
            wall_s=lambda: self.now_s,
            away=(AwayError,),
            reconnect=lambda: self.reconnects.append(self.now_s),
            stop=Pause(self),
        )

    def run(self) -> None:
        run(lambda wall_s: Emulator(self.plane, wall_s=wall_s), self.outside())


def test_ticks_until_stopped() -> None:
    world = World(MemoryPlane(site(4), waiting=[launch(1)]), until_s=5.0)
    world.run()
    assert [end.launch for end in world.plane.ended] == [1]
    assert world.now_s == pytest.approx(5.0, abs=0.2)


def test_a_short_database_outage_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    plane = MemoryPlane(site(4), waiting=[launch(1, seconds=600.0)])
    world = World(plane, away=(5.0, 25.0))
    with caplog.at_level(logging.INFO):
        world.run()
    assert [end.launch for end in plane.ended] == [1]
    assert world.reconnects[0] == pytest.approx(5.0, abs=0.2)
    assert "the database answers again" in caplog.text


def test_a_long_database_outage_ends_the_process() -> None:
    world = World(MemoryPlane(site(4)), away=(5.0, 1e9))
    with pytest.raises(DatabaseAwayError, match=r"has not answered for 30 s"):
        world.run()


def test_a_database_that_never_answers_ends_the_process() -> None:
    world = World(MemoryPlane(site(4), is_away=True), away=(0.0, 1e9))
    with pytest.raises(DatabaseAwayError, match="the emulator stops"):
        world.run()


def test_launches_claimed_before_an_error_are_resumed() -> None:
    # the claim was committed, its answer was lost: the control plane lists it as running here
    plane = MemoryPlane(site(4))
    world = World(plane, away=(5.0, 6.0), until_s=20.0)
    plane.live = []
    world_outside = world.outside()
    emulator = Emulator(plane, wall_s=0.0)
    plane.live = [launch(1)]
    run(lambda _: emulator, world_outside)
    assert [end.launch for end in plane.ended] == [1]


class EmptyAtFirst(MemoryPlane):
    """An inventory that is empty when it is read the first times."""

    reads = 0

    def site(self) -> Site:
        self.reads += 1
        if self.reads < 4:
            raise NoServersError("there are no servers")
        return super().site()


def test_waits_until_servers_are_imported() -> None:
    world = World(EmptyAtFirst(site(4), waiting=[launch(1)]), until_s=20.0)
    world.run()
    assert [end.launch for end in world.plane.ended] == [1]
    assert world.reconnects == []


def test_an_empty_inventory_does_not_end_the_process() -> None:
    plane = EmptyAtFirst(site(4))
    plane.reads = -1000
    world = World(plane, until_s=120.0)
    world.run()
    assert world.now_s >= 120.0
    assert plane.servers == []


def test_a_process_that_lost_its_backend_waits_and_resumes_its_jobs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    control_plane = MemoryPlane(site(4), live=[launch(1, seconds=1200.0)])
    world = World(control_plane, until_s=15.0)
    taken_over = iter([False, True, True, True, False])
    real = control_plane.renew

    def renew(launches: Collection[int]) -> None:
        control_plane.is_taken_over = next(taken_over, False)
        real(launches)

    control_plane.renew = renew  # type: ignore[method-assign]  # one answer after the other
    world.run()
    assert control_plane.renewed == [1]
    assert "waiting to take it over" in caplog.text
    assert world.now_s == pytest.approx(15.0, abs=1.1)
