"""Emulated nodes against a real server end: in virtual time, and as a process."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from apps.execution.backends.emulated_nodes.__main__ import NodesFileError, read_nodes
from apps.execution.backends.emulated_nodes.fleet import Fleet
from apps.execution.core.nodes.agent import Capacity
from apps.execution.core.nodes.registry import Terms
from apps.execution.infrastructure.addresses import (
    AddressError,
    DescriptorsError,
    allow_connections,
    parse_address,
)
from apps.execution.infrastructure.node_server import NodeServer
from controlplane.embedded.instance import PROJECT
from tests.execution.nodes.recorded import Recorder
from tests.execution.nodes.virtual import MemoryTransport, join, run_virtual

TERMS = Terms(heartbeat_s=5.0, lease_s=60.0, grace_s=5.0)


class World:
    """A server, a fleet of nodes of ten cores, and the connections between them."""

    def __init__(self, nodes: int, terms: Terms) -> None:
        self.seen = Recorder()
        self.server = NodeServer(self.seen, terms, loop=asyncio.get_running_loop())
        self.server.watch()
        self.ends: list[MemoryTransport] = []
        self.is_reachable = True
        capacities = [(f"n{number}", Capacity(10, 10)) for number in range(nodes)]
        self.fleet = Fleet(capacities, self.connect, np.random.default_rng(1), tick_s=0.0)

    async def connect(self, factory: Callable[[], asyncio.Protocol]) -> None:
        if not self.is_reachable:
            raise OSError("unreachable")
        self.ends.append(join(factory(), self.server.connection()))

    def launch(self, order: str, seconds: float | None, *, cpu: int = 4, node: str = "n0") -> None:
        assert self.server.launch(node, order, cpu, 1, payload={"seconds": seconds})

    def happened(self, *kinds: str) -> list[tuple[object, ...]]:
        return [event for event in self.seen.events if event[0] in kinds]


def play(
    scene: Callable[[World], Awaitable[None]], *, nodes: int = 1, terms: Terms = TERMS
) -> None:
    async def main() -> None:
        world = World(nodes, terms)
        await world.fleet.start()
        await scene(world)
        world.fleet.close()
        await world.server.close()

    run_virtual(main)


def test_an_order_runs_for_its_seconds() -> None:
    async def scene(world: World) -> None:
        world.launch("o1", 7.0)
        await asyncio.sleep(6.999)
        assert world.happened("started", "ended") == [("started", "n0", "o1")]
        await asyncio.sleep(0.002)
        assert world.happened("ended") == [("ended", "n0", "o1", "finished")]
        assert world.fleet.nodes[0].agent.register().ended == ()  # acknowledged

    play(scene)


def test_an_order_without_a_limit_runs_until_it_is_stopped() -> None:
    async def scene(world: World) -> None:
        world.launch("o1", None)
        await asyncio.sleep(1000.0)
        assert world.happened("ended") == []
        world.server.stop("n0", "o1")
        await asyncio.sleep(0.001)
        assert world.happened("ended") == [("ended", "n0", "o1", "stopped")]

    play(scene)


def test_real_free_resources_decide_whatever_the_scheduler_believes() -> None:
    async def scene(world: World) -> None:
        for number in range(3):
            world.launch(f"o{number}", 50.0)
        await asyncio.sleep(0.001)
        assert world.happened("started", "rejected") == [
            ("started", "n0", "o0"),
            ("started", "n0", "o1"),
            ("rejected", "n0", "o2", "cpu"),
        ]
        await asyncio.sleep(50.0)
        world.launch("o3", 1.0)
        await asyncio.sleep(0.001)
        assert world.happened("started")[-1] == ("started", "n0", "o3")

    play(scene)


def test_heartbeats_come_at_the_interval_and_report_what_is_free() -> None:
    async def scene(world: World) -> None:
        world.launch("o1", None)
        await asyncio.sleep(50.0)
        assert len(world.seen.beats) == 30
        assert {(beat.free_cpu, beat.free_memory) for beat in world.seen.beats} >= {(6, 9)}

    play(scene, nodes=3)


def test_usage_is_reported_if_the_server_wants_it() -> None:
    async def scene(world: World) -> None:
        world.launch("o1", None)
        await asyncio.sleep(10.0)
        assert world.happened("used")[-1] == ("used", "n0", (("o1", 4, 1),))

    play(scene, terms=Terms(usage_s=2.0))


@pytest.mark.parametrize("payload", [{}, {"seconds": -1.0}, {"seconds": "5"}, {"seconds": True}])
def test_an_order_that_names_no_run_time_is_rejected(payload: dict[str, object]) -> None:
    async def scene(world: World) -> None:
        world.server.launch("n0", "o1", 1, 1, payload=payload)
        await asyncio.sleep(0.001)
        assert world.happened("rejected") == [("rejected", "n0", "o1", "unsupported")]

    play(scene)


def test_orders_go_on_while_the_connection_is_lost_and_their_end_is_reported_later() -> None:
    async def scene(world: World) -> None:
        world.launch("o1", 3.0)
        world.launch("o2", 30.0)
        await asyncio.sleep(1.0)
        world.is_reachable = False
        world.ends[0].close()
        await asyncio.sleep(10.0)
        assert world.happened("ended") == []
        world.is_reachable = True
        await asyncio.sleep(30.0)
        assert world.happened("ended", "expired") == [
            ("ended", "n0", "o1", "finished"),
            ("ended", "n0", "o2", "finished"),
        ]
        assert world.fleet.totals.connections == 2

    play(scene)


def test_a_node_fences_itself_before_the_server_gives_its_orders_away() -> None:
    """A partition that neither end notices: bytes vanish."""

    async def scene(world: World) -> None:
        world.launch("o1", None)
        await asyncio.sleep(1.0)
        world.is_reachable = False
        world.ends[0].is_cut = True
        assert world.ends[0].peer is not None
        world.ends[0].peer.is_cut = True
        agent = world.fleet.nodes[0].agent
        while agent.running:
            assert world.happened("expired") == []
            await asyncio.sleep(0.1)
        assert 60.0 <= asyncio.get_running_loop().time() < 82.0
        while not world.happened("expired"):
            await asyncio.sleep(0.1)
        world.is_reachable = True
        await asyncio.sleep(60.0)
        assert world.happened("ended") == []  # given up: the late end is only acknowledged
        assert agent.register().ended == ()

    play(scene)


def test_an_order_that_was_given_away_is_stopped_when_the_node_returns() -> None:
    """The server restarts without its memory, and does not know the order."""

    async def scene(world: World) -> None:
        world.launch("o1", None)
        await asyncio.sleep(1.0)
        for record in world.server.registry.nodes.values():
            record.running.clear()
        world.ends[0].close()
        await asyncio.sleep(5.0)
        assert world.fleet.nodes[0].agent.running == ()
        assert world.fleet.nodes[0].agent.epoch == 2

    play(scene)


def test_nodes_come_back_after_the_server_was_away() -> None:
    async def scene(world: World) -> None:
        world.is_reachable = False
        for end in list(world.ends):
            end.close()
        await asyncio.sleep(100.0)
        assert world.server.connected == 0
        world.is_reachable = True
        await asyncio.sleep(31.0)
        assert world.server.connected == 20

    play(scene, nodes=20)


def test_a_process_emulates_nodes_over_a_socket(tmp_path: Path) -> None:
    recorder = Recorder()

    async def main() -> None:
        server = NodeServer(recorder, TERMS, loop=asyncio.get_running_loop())
        address = await server.listen(("127.0.0.1", 0))
        process = await _emulator("--connect", address, "--count", "30")
        assert process.stdout is not None
        ready = json.loads(await process.stdout.readline())
        assert ready["registered"] == server.connected == 30
        server.launch("n00007", "o1", 10, 10, payload={"seconds": 0.01})
        while ("ended", "n00007", "o1", "finished") not in recorder.events:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        totals = json.loads(await process.stdout.read())
        assert (totals["orders"], totals["started"], totals["connections"]) == (1, 1, 30)
        assert await process.wait() == 0
        await server.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_a_process_without_a_server_keeps_trying_and_says_so(tmp_path: Path) -> None:
    async def main() -> bytes:
        process = await _emulator("--connect", f"unix:{tmp_path}/no.sock", "--count", "1")
        assert process.stderr is not None
        line = await process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        return line

    assert b"n00000: [Errno 2]" in asyncio.run(asyncio.wait_for(main(), 120))


async def _emulator(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "apps.execution.backends.emulated_nodes",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )


def test_too_many_connections_name_the_limit_that_must_be_raised() -> None:
    with pytest.raises(DescriptorsError, match=r"need 1,000,000,064 open files.*ulimit -Hn"):
        allow_connections(1_000_000_000)


@pytest.mark.parametrize("text", ["", "unix:", "tcp:7000", "tcp::1", "tcp:host:x", "host:7000"])
def test_a_bad_address_says_what_is_accepted(text: str) -> None:
    with pytest.raises(AddressError, match="expected unix:PATH or tcp:HOST:PORT"):
        parse_address(text)


def test_addresses_are_a_path_or_a_host_and_a_port() -> None:
    assert parse_address("unix:/run/nodes.sock") == "/run/nodes.sock"
    assert parse_address("tcp:127.0.0.1:7000") == ("127.0.0.1", 7000)


def test_nodes_are_read_from_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "nodes.jsonl"
    path.write_text(
        '{"node": "a", "cpu": 4, "memory": 8}\n'
        '{"node": "b", "cpu": 1, "memory": 2, "attributes": ["ssd"]}\n'
    )
    assert read_nodes(path) == [("a", Capacity(4, 8)), ("b", Capacity(1, 2, ("ssd",)))]
    path.write_text('{"node": "a", "cpu": 4, "memory": 8}\n[]\n')
    with pytest.raises(NodesFileError, match="line 2: expected an object with node, cpu"):
        read_nodes(path)
