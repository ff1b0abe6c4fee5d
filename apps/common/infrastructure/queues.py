"""Numbers that live in Valkey: waiting tasks of the queues, and open event streams."""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Final

import redis

from apps.common.infrastructure.notifications import broker

QUEUES: Final = ("default", "agents", "placement", "upkeep")
STREAMS: Final = "berth:streams"  # hash: reporter -> [open streams, wall time of the report]
FRESH_S: Final = 60.0  # a reporter that is silent for so long has ended


def waiting_tasks(queues: Sequence[str]) -> Mapping[str, int]:
    """Return the number of waiting tasks by queue; empty if the broker is unreachable."""
    try:
        return {queue: int(broker().llen(queue)) for queue in queues}
    except (redis.RedisError, OSError):
        return {}


def report_streams(hub: str, count: int) -> bool:
    """Report the open streams of one hub of this process; False if the broker is unreachable."""
    reporter = f"{socket.gethostname()}:{os.getpid()}:{hub}"
    try:
        broker().hset(STREAMS, reporter, json.dumps([count, time.time()]))
    except (redis.RedisError, OSError):
        return False
    return True


def open_streams() -> int | None:
    """Return the open streams of all processes that reported lately; None: the broker is away.

    Reports of processes that have ended are deleted.
    """
    try:
        reports = {name: json.loads(text) for name, text in broker().hgetall(STREAMS).items()}
        since = time.time() - FRESH_S
        if ended := [name for name, (_, at) in reports.items() if at < since]:
            broker().hdel(STREAMS, *ended)
    except (redis.RedisError, OSError):
        return None
    return sum(count for count, at in reports.values() if at >= since)
