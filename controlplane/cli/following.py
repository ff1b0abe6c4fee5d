"""Following something over the long poll, one line for each change, until it is over."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane.cli.client import Client
from controlplane.cli.errors import CliError, Exit

CHANGES: Final = "/api/v1/changes/"
LOOK_S: Final = 5.0  # at least so often, as progress need not be an event the caller may see

Thing = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed, and how to tell of it.

    Attributes
    ----------
    address : where it is read
    topic, subject : of the events that tell of it
    state : where it is, in one word
    line : how far it is; empty = nothing to say
    is_over : whether there is nothing to wait for any more
    noun : what it is, for the reader
    next_command : what to try when it takes too long
    """

    address: str
    topic: str
    subject: str
    state: Callable[[Mapping[str, Any]], str]
    line: Callable[[Mapping[str, Any]], str]
    is_over: Callable[[Mapping[str, Any]], bool]
    noun: str
    next_command: str


def follow(
    client: Client, what: Followed, *, timeout_s: float | None, write: Callable[[str], None]
) -> Thing:
    """Read it until it is over, giving each new line to ``write``; returns it as it is then.

    Raises
    ------
    CliError : it is not over after ``timeout_s`` of wall time.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    # asked first: what happens after the first look is not missed
    position = client.get(CHANGES, topics=what.topic)["position"]
    said = ""
    while True:
        thing: Thing = client.get(what.address)
        line = what.line(thing)
        if line not in {"", said}:
            write(line)
            said = line
        if what.is_over(thing):
            return thing
        left = LOOK_S if end is None else end - time.monotonic()
        if left <= 0:
            raise CliError(
                f"the {what.noun} is still {what.state(thing)}",
                code=Exit.TIMEOUT,
                next_command=what.next_command,
            )
        position = _await_change(client, what, position, wait_s=min(left, LOOK_S))


def _await_change(client: Client, what: Followed, position: int, *, wait_s: float) -> int:
    """Wait for an event about it; returns the new position."""
    end = time.monotonic() + wait_s
    while (left := end - time.monotonic()) > 0:
        wait = str(max(1, round(left)))
        found = client.get(CHANGES, since=str(position), wait=wait, topics=what.topic)
        position = found["position"]
        if any(event["subject"] == what.subject for event in found["results"]):
            break
    return position
