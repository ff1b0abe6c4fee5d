"""The agents that decide at present, as the samples of the System page have counted them."""

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
    """The place of one agent among those that decide at the same time.

    Agents may disagree for some seconds about who decides: their shares overlap then, and commits
    resolve the conflicts. An agent that no sample has counted yet adds itself.

    Parameters
    ----------
    clock : wall seconds, monotonic
    """

    def __init__(self, agent: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._agent, self._clock = agent, clock
        self._due_s = -float("inf")
        self._found: dict[str, float] = {}

    def situation(self) -> Mapping[str, float]:
        """Return the number of agents and of this one's share; at most one query in `POLL_S`."""
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
