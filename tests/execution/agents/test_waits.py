"""Looks at what a task waits for, in a described and in the real /proc."""

import os
import socket
from pathlib import Path

import pytest

from apps.execution.backends.agent import waits
from apps.execution.backends.agent.waits import WaitSamples

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


@pytest.fixture(autouse=True)
def _every_sample_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "SAMPLE_S", 0.0)


def describe(proc: Path, process: int, state: str, queues: str = "", status: str = "01") -> None:
    """A process with one thread and one socket."""
    home = proc / str(process)
    (home / "task/1").mkdir(parents=True, exist_ok=True)
    (home / "task/1/stat").write_text(f"1 (a) b (c) {state} 1 1")
    (home / "fd").mkdir(exist_ok=True)
    (home / "net").mkdir(exist_ok=True)
    if not (home / "fd/3").is_symlink():
        (home / "fd/3").symlink_to("socket:[77]")
    line = f"   0: 0100007F:1 0100007F:2 {status} {queues} 00:00000000 00000000 0 0 77 1\n"
    (home / "net/tcp").write_text(HEADER + (line if queues else ""))


def test_the_shares_of_samples_with_a_wait_are_counted(tmp_path: Path) -> None:
    samples = WaitSamples()
    assert samples.shares() == (None, None)
    for state, queues in (
        ("R", "00000000:00000000"), ("D", "00000000:00000000"), ("S", "00000000:0000000F"),
        ("S", "000000A0:00000000"),
    ):  # fmt: skip
        describe(tmp_path, 5, state, queues)
        samples.sample([5, 6], proc=tmp_path)  # process 6 has ended
    assert samples.shares() == (0.25, 0.5)


def test_connections_that_wait_to_be_accepted_and_packets_of_others_do_not_count(
    tmp_path: Path,
) -> None:
    samples = WaitSamples()
    describe(tmp_path, 5, "S", "00000000:00000003", status="0A")
    samples.sample([5], proc=tmp_path)
    describe(tmp_path, 5, "S", "00000000:00000003")
    (tmp_path / "5/fd/3").unlink()
    (tmp_path / "5/fd/3").symlink_to("socket:[78]")
    samples.sample([5], proc=tmp_path)
    assert samples.shares() == (0.0, 0.0)


def test_sockets_that_may_not_be_listed_leave_the_network_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    describe(tmp_path, 5, "D")
    monkeypatch.setattr(waits, "_sockets", refuse)
    samples = WaitSamples()
    samples.sample([5], proc=tmp_path)
    assert samples.shares() == (1.0, None)


def test_two_samples_have_a_time_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "SAMPLE_S", 3600.0)
    describe(tmp_path, 5, "D")
    samples = WaitSamples()
    samples.sample([5], proc=tmp_path)
    samples.sample([5], proc=tmp_path)
    assert samples.samples == 1


def test_a_packet_in_a_real_socket_is_seen_until_it_is_read() -> None:
    before, during, after = WaitSamples(), WaitSamples(), WaitSamples()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as sender,
        listening.accept()[0] as receiver,
    ):
        before.sample([os.getpid()])
        sender.sendall(b"a packet")
        during.sample([os.getpid()])
        receiver.recv(100)
        after.sample([os.getpid()])
    assert [samples.network for samples in (before, during, after)] == [0, 1, 0]
