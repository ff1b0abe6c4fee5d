"""Reports of the emulated servers: in parts, and only of servers that exist."""

import pytest

from apps.execution.backends.emulated import emulator as module
from apps.execution.backends.emulated.emulator import Emulator, Pace
from tests.execution.emulated_plane import MemoryPlane, site

ALWAYS = Pace(poll_s=0.0, servers_s=0.0)


def emulator(plane: MemoryPlane) -> Emulator:
    return Emulator(plane, wall_s=0.0, pace=ALWAYS)


def test_every_server_sends_heartbeats() -> None:
    plane = MemoryPlane(site(4, 2))
    backend = emulator(plane)
    backend.tick(1.0)
    at_s, readings = plane.servers[-1]
    assert at_s == 60.0
    assert readings.cpu_share.shape == (2,)


def test_many_servers_are_reported_in_parts_one_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVERS_PER_TICK", 2)
    plane = MemoryPlane(site(*[4] * 5))
    backend = emulator(plane)
    for tick in range(4):
        backend.tick(1.0 + tick / 10)
    first, second, third, fourth = plane.servers
    assert [each[1].cpu_share.size for each in plane.servers] == [2, 2, 1, 2]
    assert first[0] == second[0] == third[0] == 60.0  # one reading of all servers
    assert fourth[0] > 60.0


def test_a_large_cluster_reports_more_servers_in_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVERS_PER_TICK", 2)
    monkeypatch.setattr(module, "MAX_PARTS", 2)
    plane = MemoryPlane(site(*[4] * 7))
    backend = emulator(plane)
    backend.tick(1.0)
    backend.tick(1.1)
    assert [each[1].watts.size for each in plane.servers] == [4, 3]


def test_readings_of_removed_servers_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERVERS_PER_TICK", 2)
    plane = MemoryPlane(site(*[4] * 5))
    backend = emulator(plane)
    backend.tick(1.0)
    plane.place = site(4, version=2)
    backend.tick(1.6)
    assert [each[1].watts.size for each in plane.servers] == [2, 1]
