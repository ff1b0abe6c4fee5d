"""Follow a resource by long polling and print its progress until it ends."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit

CHANGES: Final = "/api/v1/changes/"
POLL_S: Final = 5.0  # max time between polls, as some progress has no visible event

Resource = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FollowSpec:
    """A resource to follow and how to describe its progress.

    Attributes
    ----------
    address : path of the resource
    topic, subject : of its events
    state : returns its state
    line : returns its progress; empty to print nothing
    is_over : whether to stop following
    noun : its kind, for messages
    next_command : suggested command after a time-out
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
    client: BerthClient, spec: FollowSpec, *, timeout_s: float | None, write: Callable[[str], None]
) -> Resource:
    """Poll a resource until it ends and pass each new progress line to ``write``.

    Raises
    ------
    CliError : it has not ended after ``timeout_s`` of wall time.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    # read before the resource, so that no later change is missed
    position = client.get(CHANGES, topics=spec.topic)["position"]
    printed = ""
    while True:
        resource: Resource = client.get(spec.address)
        line = spec.line(resource)
        if line not in {"", printed}:
            write(line)
            printed = line
        if spec.is_over(resource):
            return resource
        remaining = POLL_S if end is None else end - time.monotonic()
        if remaining <= 0:
            raise CliError(
                f"the {spec.noun} is still {spec.state(resource)}",
                code=Exit.TIMEOUT,
                next_command=spec.next_command,
            )
        position = _await_change(client, spec, position, wait_s=min(remaining, POLL_S))


def _await_change(client: BerthClient, spec: FollowSpec, position: int, *, wait_s: float) -> int:
    """Wait for an event of the resource; return the new position."""
    end = time.monotonic() + wait_s
    while (remaining := end - time.monotonic()) > 0:
        wait = str(max(1, round(remaining)))
        changes = client.get(CHANGES, since=str(position), wait=wait, topics=spec.topic)
        position = changes["position"]
        if any(event["subject"] == spec.subject for event in changes["results"]):
            break
    return position
