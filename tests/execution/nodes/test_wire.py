"""Messages as lines of JSON: round trips, and what is refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.execution.core.nodes.messages import (
    MAX_FRAME,
    Code,
    FromNode,
    FromServer,
    Heartbeat,
    Launch,
    ProtocolError,
    Register,
    Welcome,
)
from apps.execution.core.nodes.wire import (
    LineReader,
    decode_from_node,
    decode_from_server,
    encode,
)
from tests.execution.nodes.strategies import from_node, from_server

REGISTER = {"type": "register", "node": "n1", "cpu": 4, "memory": 8, "free_cpu": 4}
LAUNCH = {"type": "launch", "order": "o1", "epoch": 1, "cpu": 1, "memory": 1}


def line(**content: object) -> bytes:
    return json.dumps(content).encode()


@given(from_node)
def test_a_message_of_a_node_is_read_as_it_was_written(message: FromNode) -> None:
    encoded = encode(message)
    assert encoded.count(b"\n") == 1
    assert decode_from_node(encoded[:-1]) == message


@given(from_server)
def test_a_message_of_the_server_is_read_as_it_was_written(message: FromServer) -> None:
    encoded = encode(message)
    assert encoded.count(b"\n") == 1
    assert decode_from_server(encoded[:-1]) == message


@given(st.lists(from_node, max_size=5), st.data())
def test_lines_do_not_depend_on_how_the_bytes_arrive(
    messages: list[FromNode], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, messages))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    reader, lines = LineReader(), []
    for low, high in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        lines += reader.feed(stream[low:high])
    assert [decode_from_node(found) for found in lines] == messages


@given(st.binary(max_size=200))
def test_any_other_line_is_refused_with_a_reason(noise: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_from_node(noise)
    assert caught.value.code is Code.MALFORMED
    assert str(caught.value)


@given(from_node, st.data())
def test_a_damaged_line_is_refused_or_read_as_another_message(
    message: FromNode, data: st.DataObject
) -> None:
    """A changed byte raises nothing else."""
    damaged = bytearray(encode(message)[:-1])
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    with suppress(ProtocolError):
        decode_from_node(bytes(damaged))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[1]", "not an object: b'[1]'"),
        (b"\xff\xfe", "not JSON in UTF-8"),
        (b"[" * 100_000, "not JSON in UTF-8"),
        (b'{"type":"heartbeat","free_cpu":NaN}', "not JSON in UTF-8"),
        (line(type="launch"), "type is 'launch'; expected one of register, heartbeat,"),
        (line(type=7), "type is 7"),
        (line(node="n1"), "type is None"),
        (line(**REGISTER), "register.free_memory is missing"),
        (line(**REGISTER, free_memory=True), "register.free_memory is True; expected an integer"),
        (line(**REGISTER, free_memory=1.5), "register.free_memory is 1.5; expected an integer"),
        (line(**{**REGISTER, "cpu": -1}), "register.cpu is -1; expected an integer from 0 to"),
        (line(**{**REGISTER, "node": "a\nb"}), "expected 1 to 256 printable characters"),
        (line(**{**REGISTER, "node": ""}), "expected 1 to 256 printable characters"),
        (line(type="usage", used=[["o1", 1]]), "expected entries [order, cpu, memory]"),
        (line(type="ended", order="o1", outcome="done"), "expected one of finished, failed,"),
        (line(type="rejected", order="o1", reason=["cpu"]), "expected one of cpu, memory,"),
    ],
)
def test_a_malformed_line_names_the_field_and_what_it_accepts(content: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_from_node(content)
    assert reason in str(caught.value)


@pytest.mark.parametrize("heartbeat_s", [0.0, 0.09, 501.0, True, "5", None])
def test_heartbeats_are_from_a_tenth_of_a_second_to_500_seconds(heartbeat_s: object) -> None:
    content: dict[str, Any] = {"type": "welcome", "epoch": 1, "usage_s": 0, "lease_s": 60}
    accepted = decode_from_server(line(**content, heartbeat_s=500))
    assert isinstance(accepted, Welcome)
    assert accepted.heartbeat_s == 500.0
    with pytest.raises(ProtocolError, match=r"welcome.heartbeat_s is .*; expected seconds from"):
        decode_from_server(line(**content, heartbeat_s=heartbeat_s))


def test_unknown_fields_are_ignored_and_optional_ones_have_defaults() -> None:
    message = decode_from_node(line(**REGISTER, free_memory=8, colour="red"))
    assert message == Register("n1", 4, 8, 4, 8)
    assert decode_from_server(line(**LAUNCH)) == Launch("o1", 1, 1, 1)


def test_a_line_without_end_is_refused_before_memory_fills() -> None:
    reader = LineReader()
    assert reader.feed(b"x" * MAX_FRAME) == []
    with pytest.raises(ProtocolError) as caught:
        reader.feed(b"x")
    assert caught.value.code is Code.OVERSIZED
    assert f"at most {MAX_FRAME} are accepted" in str(caught.value)


def test_a_complete_line_that_is_too_long_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        LineReader().feed(b"x" * (MAX_FRAME + 1) + b"\n")


def test_a_message_that_the_other_end_would_refuse_is_not_written() -> None:
    long = Launch("o1", 1, 1, 1, payload={"files": "x" * MAX_FRAME})
    with pytest.raises(ProtocolError, match="at most"):
        encode(long)
    with pytest.raises(ValueError, match="JSON"):
        encode(Launch("o1", 1, 1, 1, payload={"seconds": float("inf")}))


def test_a_heartbeat_takes_less_than_a_hundred_bytes() -> None:
    assert len(encode(Heartbeat(10**9, 10**12, 100))) < 100
