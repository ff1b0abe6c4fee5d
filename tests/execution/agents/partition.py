"""Ways to cut a machine off: virtual network devices, or a proxy that forwards nothing."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.execution.agents.gate import Gate, gate_to


@dataclass
class Network:
    """A way to the control plane.

    Attributes
    ----------
    url : of the control plane on this way
    prefix : of the commands that use it
    """

    url: str
    prefix: tuple[str, ...]
    gate: Gate
    device: str = ""

    def cut(self) -> None:
        """Let nothing pass, in either direction; no connection is closed."""
        if self.device:
            _ip("link", "set", self.device, "down")
        else:
            self.gate.hold()

    def mend(self) -> None:
        """Let everything pass again."""
        if self.device:
            _ip("link", "set", self.device, "up")
        else:
            self.gate.release()


@contextmanager
def network(kind: str, url: str) -> Iterator[Network]:
    """Return a way to a server: "veth" needs the right to make network devices."""
    if kind == "proxy":
        with gate_to(url) as gate:
            yield Network(gate.url, (), gate)
        return
    number = os.getpid() % 250
    space, device, inner = (f"berth{letter}{os.getpid()}" for letter in "nab")
    here, there = f"10.201.{number}.1", f"10.201.{number}.2"
    made = subprocess.run(  # noqa: S603 - fixed arguments
        ["ip", "netns", "add", space],  # noqa: S607 - of the PATH
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no right to make network devices here: {made.stderr.strip()}")
    try:
        _ip("link", "add", device, "type", "veth", "peer", "name", inner, "netns", space)
        _ip("addr", "add", f"{here}/30", "dev", device)
        _ip("link", "set", device, "up")
        _ip("-n", space, "addr", "add", f"{there}/30", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")
        with gate_to(url, host=here) as gate:
            yield Network(gate.url, ("ip", "netns", "exec", space), gate, device)
    finally:
        _ip("netns", "del", space)  # and its device, and the other end


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)  # noqa: S603, S607 - fixed arguments
