"""Run a batch log in AccaSim: executed by the Python of AccaSim's own environment.

    python _accasim.py LOG PROCESSORS fifo|easy|easy_kept FOLDER

AccaSim 1.1.3 (Galleguillos, Kiziltan, Netti, Soto, Cluster Computing 23, 2020; MIT licence)
imports `Mapping` from where Python 3.10 no longer has it. Its EASY passes no reserved nodes to the
allocator, so that backfilled jobs may delay the first one; ``easy_kept`` is the same scheduler
whose allocator keeps the reservation (Mu'alem and Feitelson, IEEE TPDS 12(6), 2001): a job behind
the first starts only if it ends before the reservation, or needs processors that are left then.
"""

import collections
import collections.abc
import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]  # for AccaSim
CORES_OF_A_NODE: Final = 1


def main() -> None:
    """Run the log; AccaSim writes the schedule into the folder."""
    log, processors, discipline, folder = sys.argv[1:]
    config = Path(folder) / "system.json"
    node = {"core": CORES_OF_A_NODE, "mem": 1}
    system = {
        "groups": {"node": node},
        "resources": {"node": int(processors)},
        "start_time": 0,
        "equivalence": {"processor": {"core": CORES_OF_A_NODE}},
    }
    config.write_text(json.dumps(system))
    simulator = importlib.import_module("accasim.base.simulator_class").Simulator
    simulator(
        log,
        str(config),
        _dispatcher(discipline),
        RESULTS_FOLDER_PATH=folder,
        show_statistics=False,
        statistics_output=False,
        LOG_LEVEL="ERROR",
    ).start_simulation()


def _dispatcher(discipline: str) -> Any:
    schedulers = importlib.import_module("accasim.base.scheduler_class")
    first_fit = importlib.import_module("accasim.base.allocator_class").FirstFit
    if discipline == "fifo":
        return schedulers.FirstInFirstOut(first_fit())
    if discipline == "easy":
        return schedulers.EASYBackfilling(first_fit())
    return _kept(schedulers.EASYBackfilling, first_fit)


def _kept(easy: Any, first_fit: Any) -> Any:
    """Return AccaSim's EASY with an allocator that keeps the reservation."""

    class KeepsReservation(first_fit):  # type: ignore[misc]  # a class of AccaSim
        """First fit that leaves processors to the reservation."""

        extra = 0

        def allocating_method(
            self, es: Any, cur_time: int, skip: bool = False, **reserved: Any
        ) -> Any:
            until = reserved.get("reserved_time")
            if until is None:
                return super().allocating_method(es, cur_time, skip=skip)
            return [self._behind_first(job, cur_time, until) for job in es]

        def _behind_first(self, job: Any, now: int, until: int) -> Any:
            overlaps = now + job.expected_duration > until
            if overlaps and job.requested_nodes > self.extra:
                return (None, job.id, [])
            [answer] = super().allocating_method([job], now, skip=True)
            if overlaps and answer[2]:
                self.extra -= job.requested_nodes
            return answer

    class Kept(easy):  # type: ignore[misc]  # a class of AccaSim
        """EASY that tells the allocator how many processors the reservation leaves."""

        def _calculate_slot(
            self, now: int, free: Any, decided: Any, before: Any, blocked: Any, jobs: Any
        ) -> Any:
            processors = sum(node["core"] for node in free.values())
            running = {
                name: jobs[name].start_time for name in self.resource_manager.current_allocations
            }
            running |= {name: now for _, name, _ in [*decided, *(before or [])]}
            slot = super()._calculate_slot(now, free, decided, before, blocked, jobs)
            ended = sum(
                jobs[name].requested_nodes
                for name, start in running.items()
                if start + jobs[name].expected_duration <= slot[0]
            )
            self.nonauto_allocator.extra = processors + ended - blocked.requested_nodes
            return slot

    return Kept(KeepsReservation())


if __name__ == "__main__":
    main()
