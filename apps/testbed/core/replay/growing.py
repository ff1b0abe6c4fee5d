"""Running jobs of a replay that lack units, by the rule of production (`core.growth`)."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.growth import missing_request
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.testbed.core.replay.agents import Agent
from apps.testbed.core.replay.demand import SizedRequest
from apps.testbed.core.replay.migrating import RunningJob

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

MAX_BATCH: Final = 16  # jobs in one batch, as in production


class Growing:
    """The running jobs that lack units, for the agents of one run."""

    def __init__(self, loop: "ReplayLoop", batch: int) -> None:
        self._loop, self._max_jobs = loop, max(1, min(MAX_BATCH, batch // 2))

    def __len__(self) -> int:
        return len(self._loop.incomplete)

    def take(self, agent: Agent, taken: Collection[int]) -> Mapping[int, RunningJob]:
        """Return the next jobs to evaluate, the longest placed ones first.

        Those that were not evaluated since the last release; none if no unit is free. A job that
        migrates gets no units meanwhile.

        Parameters
        ----------
        taken : jobs that other agents evaluate
        """
        if not self or not agent.copy.snapshot().free_units:
            return {}
        found = (
            (job, running)
            for job, running in self._loop.incomplete.items()
            if running.evaluated < agent.released
            and job not in taken
            and not self._loop.migrating.is_moving(job)
        )
        return dict(islice(found, self._max_jobs))

    def is_waiting(self, job: int, running: RunningJob) -> bool:
        """Whether a run of a job, which may have ended, can be given further units now."""
        is_running = self._loop.incomplete.get(job) is running
        return is_running and not self._loop.migrating.is_moving(job)


def missing_units(
    running: RunningJob, found: SizedRequest | Infeasible, topology: Topology
) -> SizedRequest:
    """Return the request of the units that a job lacks; it waits for no better ones.

    Parameters
    ----------
    found : its request now; on any platform if none meets its target any more
    """
    if isinstance(found, Infeasible):
        request = replace(running.request, platforms=None)
    else:
        request = found.request
    held = topology.server_id[list(running.parts)] if request.spread is not None else ()
    request = replace(request, units=running.lacking, locality=None)
    return SizedRequest(missing_request(request, topology, [*held]), speed=1.0)
