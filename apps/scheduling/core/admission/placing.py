"""Decisions of a policy on the jobs that an admission control admits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.admission.types import Admitted, Delayed
from apps.scheduling.core.types import Placed, Pool, Refused, Request

ADMISSION: Final = "admission"  # among the counts of a refusal: units that it kept from the job
Place = Callable[[Snapshot, Sequence[Request]], list[Placed | Refused]]


def place_admitted(
    verdicts: Sequence[Admitted | Delayed],
    requests: Sequence[Request],
    snapshot: Snapshot,
    place: Place,
) -> list[Placed | Refused]:
    """Return one outcome per request, in order.

    The admitted ones are one batch of the policy, so later ones see the use of earlier ones.
    """
    admitted = [
        within(request, verdict)
        for request, verdict in zip(requests, verdicts, strict=True)
        if isinstance(verdict, Admitted)
    ]
    placed = iter(place(snapshot, admitted) if admitted else ())
    return [
        next(placed)
        if isinstance(verdict, Admitted)
        else refused_as(verdict, request.job, snapshot)
        for request, verdict in zip(requests, verdicts, strict=True)
    ]


def within(request: Request, verdict: Admitted) -> Request:
    """Return the request of an admitted job, for the servers of its verdict only.

    They are those of its pool, on which a quota lets it borrow units, if it has one already.
    """
    if verdict.servers is None:
        return request
    servers = verdict.servers if request.pool is None else verdict.servers & request.pool.mask()
    return replace(request, pool=Pool.of(servers))


def refused_as(
    delayed: Delayed, job: str, snapshot: Snapshot, seen: Snapshot | None = None
) -> Refused:
    """Return the refusal of a job that waits at admission.

    Parameters
    ----------
    seen : without the units that are reserved for other jobs; None = none are
    """
    free = int(snapshot.unit_free.sum())
    left = free if seen is None else int(seen.unit_free.sum())
    counts = {"busy": snapshot.unit_free.size - free, ADMISSION: left}
    dropped = counts | ({"reserved": free - left} if left < free else {})
    return Refused(job, delayed.reason, dropped, detail=delayed.detail, sequence=snapshot.sequence)
