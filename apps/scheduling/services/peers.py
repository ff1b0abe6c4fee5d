"""The active agents, read from the samples of the System page."""

import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Final

from apps.common.infrastructure.database import database_now
from apps.operations.models import SystemSample
from apps.scheduling.core.registry import MAX_AGENTS

SPAN: Final = timedelta(seconds=30)  # three samples
POLL_S: Final = 5.0


class Peers:
    """The rank of one agent among the active agents.

    A new agent is in no sample yet, so it adds itself. For some seconds agents may then differ
    in which agents they count. Their shares of the servers overlap, and commits resolve the
    conflicts.

    Parameters
    ----------
    clock : wall seconds, monotonic
    """

    def __init__(self, agent: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._agent, self._clock = agent, clock
        self._due_s = -float("inf")
        self._found: dict[str, float] = {}

    def parameters(self) -> Mapping[str, float]:
        """Return the parameters that the agent sets for its policies: ``agents`` and ``share``.

        Queries the samples at most once in `POLL_S` seconds.
        """
        if self._clock() >= self._due_s:
            self._found = place_among(self._agent, deciding_agents())
            self._due_s = self._clock() + POLL_S
        return self._found


def place_among(agent: str, deciding: Collection[str]) -> dict[str, float]:
    """Return the parameters ``agents`` and ``share`` of an agent: the share is its rank."""
    names = sorted({*deciding, agent})
    return {"agents": min(len(names), MAX_AGENTS), "share": names.index(agent) % MAX_AGENTS}


def deciding_agents() -> frozenset[str]:
    """Return the names of the agents that have decided during the last samples."""
    recent = SystemSample.objects.filter(at__gte=database_now() - SPAN)
    return frozenset(name for agents in recent.values_list("agents", flat=True) for name in agents)
