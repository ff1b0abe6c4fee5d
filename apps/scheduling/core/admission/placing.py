"""Decisions of a policy on the jobs that an admission control admits."""

from collections.abc import Callable, Sequence

import numpy as np

from apps.inventory.core.snapshot import Bools, Snapshot
from apps.scheduling.core.admission.types import Admitted, Delayed
from apps.scheduling.core.reservations.gangs import without_units
from apps.scheduling.core.types import Placed, Refused

Place = Callable[[Snapshot, list[int]], list[Placed | Refused]]


def place_admitted(
    verdicts: Sequence[Admitted | Delayed], jobs: Sequence[str], snapshot: Snapshot, place: Place
) -> list[Placed | Refused]:
    """Return one outcome per job, in order.

    Jobs that may use the same servers are one batch of the policy; the others see their use.

    Parameters
    ----------
    place : decides on jobs by position, on a snapshot
    """
    outcomes: dict[int, Placed | Refused] = {}
    groups: dict[bytes, tuple[Bools | None, list[int]]] = {}
    for position, verdict in enumerate(verdicts):
        if isinstance(verdict, Delayed):
            outcomes[position] = refused_as(verdict, jobs[position], snapshot)
        else:
            key = b"" if verdict.servers is None else np.packbits(verdict.servers).tobytes()
            groups.setdefault(key, (verdict.servers, []))[1].append(position)
    taken = np.zeros(snapshot.unit_free.size, dtype=np.bool_)
    for servers, positions in groups.values():
        hidden = taken if servers is None else taken | ~servers[snapshot.topology.unit_server]
        seen = without_units(snapshot, hidden) if hidden.any() else snapshot
        for position, outcome in zip(positions, place(seen, positions), strict=True):
            outcomes[position] = outcome
            if isinstance(outcome, Placed):
                taken[outcome.units] = True
    return [outcomes[position] for position in range(len(jobs))]


def refused_as(delayed: Delayed, job: str, snapshot: Snapshot) -> Refused:
    """Return the refusal of a job that waits at admission."""
    busy = int(snapshot.unit_free.size - snapshot.unit_free.sum())
    free = int(snapshot.unit_free.sum())
    dropped = {"busy": busy, "admission": free}
    return Refused(job, delayed.reason, dropped, detail=delayed.detail, sequence=snapshot.sequence)
