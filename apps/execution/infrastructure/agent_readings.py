"""The latest heartbeat of every agent, in Valkey: a heartbeat writes nothing to the database.

The sweep stores those of all servers in one statement. If Valkey is emptied, the next heartbeats
fill it again.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import redis
from django.db import connection

from apps.common.infrastructure.notifications import broker
from apps.execution.core.agent.wire import MachineUsage

_logger = logging.getLogger(__name__)
FRESH_S: Final = 12.0  # wall seconds; older heartbeats are not stored again


def _key() -> str:
    """Return the key of this database: server ids of another one mean other servers."""
    return f"agents:heard:{connection.settings_dict['NAME']}"


@dataclass(frozen=True, slots=True)
class Heard:
    """A heartbeat of a server, and when it came (seconds since the epoch, of the database)."""

    at_s: float
    usage: MachineUsage


def note_heartbeat(server_id: int, usage: MachineUsage, *, at_s: float) -> None:
    """Keep the heartbeat of a server in place of its last one."""
    broker().hset(_key(), str(server_id), json.dumps({"at_s": at_s, **asdict(usage)}))


def heartbeats(*, now_s: float) -> Mapping[int, Heard]:
    """Return the heartbeats of the last `FRESH_S` seconds by server; none if Valkey is away."""
    try:
        stored = broker().hgetall(_key())
    except redis.RedisError as error:
        _logger.warning("no heartbeat of an agent could be read: %s", error)
        return {}
    rows = {int(key): json.loads(text) for key, text in stored.items()}
    return {
        server: Heard(row.pop("at_s"), MachineUsage(**row))
        for server, row in rows.items()
        if now_s - row["at_s"] <= FRESH_S
    }
