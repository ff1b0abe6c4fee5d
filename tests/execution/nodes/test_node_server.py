"""The server's end of the node protocol, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from apps.execution.core.nodes.messages import (
    MAX_FRAME,
    Accepted,
    Acknowledged,
    Code,
    Ended,
    Error,
    Heartbeat,
    Launch,
    Outcome,
    Register,
    Rejected,
    Rejection,
    Started,
    Stop,
    Usage,
    Welcome,
)
from apps.execution.core.nodes.registry import Terms
from apps.execution.infrastructure.node_server import MAX_UNREAD, NodeServer
from tests.execution.nodes.recorded import Recorder, SpokenNode
from tests.execution.nodes.virtual import run_virtual

TERMS = Terms(heartbeat_s=5.0, usage_s=0.0, lease_s=60.0, grace_s=5.0)
REGISTER = Register("n1", 10, 10, 10, 10)
BEAT = Heartbeat(10, 10, 0)

Scene = Callable[[NodeServer, Recorder], Awaitable[None]]


def play(scene: Scene) -> Recorder:
    """Run a scene against a server; return what its user was told."""
    recorder = Recorder()

    async def main() -> None:
        server = NodeServer(recorder, TERMS, loop=asyncio.get_running_loop())
        server.watch()
        await scene(server, recorder)
        await server.close()

    run_virtual(main)
    return recorder


async def beat(node: SpokenNode, seconds: int) -> None:
    """Let time pass with heartbeats."""
    for _ in range(seconds // 5):
        await asyncio.sleep(5.0)
        await node.say(BEAT)


def test_a_registered_node_is_welcomed_and_heard() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        assert node.received == [Welcome(1, 5.0, 0.0, 60.0)]
        await node.say(Heartbeat(3, 4, 2), Usage((("o1", 1, 2),)))
        assert server.connected == 1

    recorder = play(scene)
    assert recorder.beats == [Heartbeat(3, 4, 2)]
    assert recorder.events[:2] == [("registered", "n1"), ("used", "n1", (("o1", 1, 2),))]


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"nonsense\n", Code.MALFORMED, "not JSON"),
        (b'{"type":"register"}\n', Code.MALFORMED, "register.node is missing"),
        (b"x" * (MAX_FRAME + 1), Code.OVERSIZED, f"at most {MAX_FRAME}"),
        (
            b'{"type":"heartbeat","free_cpu":1,"free_memory":1,"tasks":0}\n',
            Code.UNEXPECTED,
            "heartbeat before register",
        ),
        (
            b'{"type":"register","node":"n1","cpu":1,"memory":1,"free_cpu":1,"free_memory":1'
            b',"protocol":9}\n',
            Code.VERSION,
            "protocol is 9; this server speaks 1",
        ),
    ],
    ids=["not-json", "no-name", "oversized", "too-early", "version"],
)
def test_a_connection_that_breaks_the_protocol_is_told_why_and_closed(
    data: bytes, code: Code, reason: str
) -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.raw(data)
        answer = node.last()
        assert isinstance(answer, Error)
        assert answer.code is code
        assert reason in answer.detail
        assert not node.is_open

    assert play(scene).events == []


def test_one_bad_connection_does_not_touch_the_others() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        good, bad = SpokenNode(server), SpokenNode(server)
        await good.say(REGISTER)
        await bad.say(Register("n2", 1, 1, 1, 1))
        await bad.raw(b"{}\n")
        assert (good.is_open, bad.is_open) == (True, False)
        assert server.connected == 1

    assert ("disconnected", "n2") in play(scene).events


def test_a_connection_without_a_registration_is_closed() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await asyncio.sleep(9.0)
        assert node.is_open
        await asyncio.sleep(3.0)
        assert not node.is_open

    play(scene)


def test_a_silent_node_is_disconnected_and_its_orders_expire_after_the_lease() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        server.launch("n1", "o1", 1, 1)
        server.launch("n1", "o2", 1, 1)
        await node.say(Started("o1"))
        node.end.is_cut = True
        await asyncio.sleep(22.0)  # three heartbeats, five seconds of grace, a sweep
        assert ("disconnected", "n1") in recorder.events
        assert server.launch("n1", "o3", 1, 1) is False
        await asyncio.sleep(63.0)
        assert ("expired", "n1", ["o2"], ["o1"]) not in recorder.events
        await asyncio.sleep(5.0)
        assert recorder.events[-1] == ("expired", "n1", ["o2"], ["o1"])

    play(scene)


def test_a_node_that_nothing_is_sent_to_gets_a_keep_alive_before_its_lease_ends() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        await beat(node, 60)
        assert node.received[1:] == [Acknowledged(()), Acknowledged(())]

    play(scene)


def test_an_order_is_answered_and_its_end_acknowledged() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        assert server.launch("n1", "o1", 2, 3, needs=("ssd",), payload={"seconds": 1.5})
        await node.say(Accepted("o1"))
        assert node.last() == Launch("o1", 1, 2, 3, ("ssd",), {"seconds": 1.5})
        await node.say(Started("o1"), Ended("o1", Outcome.FINISHED))
        assert node.last() == Acknowledged(("o1",))
        server.launch("n1", "o2", 2, 3)
        await node.say(Rejected("o2", Rejection.CPU))
        server.stop("n1", "o9")
        await node.say(BEAT)
        assert node.last() == Stop("o9")

    assert play(scene).events[1:-1] == [
        ("accepted", "n1", "o1"),
        ("started", "n1", "o1"),
        ("ended", "n1", "o1", "finished"),
        ("rejected", "n1", "o2", "cpu"),
    ]


def test_a_repeated_end_counts_once_and_is_acknowledged_every_time() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        server.launch("n1", "o1", 1, 1)
        await node.say(Started("o1"), Ended("o1", Outcome.FINISHED))
        await node.say(Ended("o1", Outcome.FINISHED), Ended("o0", Outcome.FAILED))
        assert node.received[2:] == [Acknowledged(("o1",)), Acknowledged(("o1", "o0"))]

    ends = [event for event in play(scene).events if event[0] == "ended"]
    assert ends == [("ended", "n1", "o1", "finished")]


def test_an_answer_to_no_order_is_ignored() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        await node.say(Started("o1"), Accepted("o2"), Rejected("o3", Rejection.CPU))
        assert node.is_open

    assert play(scene).events[1:] == [("disconnected", "n1")]


def test_a_second_registration_fences_the_first_connection() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        old, new = SpokenNode(server), SpokenNode(server)
        await old.say(REGISTER)
        server.launch("n1", "o1", 1, 1)
        await new.say(REGISTER)
        assert old.last() == Error(Code.SUPERSEDED, "the node has registered again")
        assert new.received == [Welcome(2, 5.0, 0.0, 60.0), Launch("o1", 2, 1, 1)]
        assert not old.is_open
        assert server.connected == 1

    assert [event[0] for event in play(scene).events] == [
        "registered",
        "registered",
        "disconnected",
    ]


def test_late_bytes_of_a_fenced_connection_change_nothing() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        old, new = SpokenNode(server), SpokenNode(server)
        await old.say(REGISTER)
        server.launch("n1", "o1", 1, 1)
        await asyncio.gather(new.say(REGISTER), old.say(Started("o1"), BEAT))

    recorder = play(scene)
    assert recorder.beats == []
    assert not [event for event in recorder.events if event[0] == "started"]


def test_an_order_without_an_answer_is_sent_again_after_a_reconnection() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        first = SpokenNode(server)
        await first.say(REGISTER)
        server.launch("n1", "o1", 1, 1)
        first.end.close()
        await asyncio.sleep(1.0)
        second = SpokenNode(server)
        await second.say(REGISTER)
        assert second.received == [Welcome(2, 5.0, 0.0, 60.0), Launch("o1", 2, 1, 1)]
        await second.say(Started("o1"))

    assert ("started", "n1", "o1") in play(scene).events


def test_a_node_that_does_not_read_is_disconnected() -> None:
    async def scene(server: NodeServer, recorder: Recorder) -> None:
        node = SpokenNode(server)
        await node.say(REGISTER)
        assert node.end.peer is not None
        node.end.peer.unread = MAX_UNREAD + 1
        server.launch("n1", "o1", 1, 1)
        await asyncio.sleep(0.001)
        assert not node.is_open

    assert play(scene).events[-1] == ("disconnected", "n1")
