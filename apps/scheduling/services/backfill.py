"""Decisions of a policy around the reservations of gangs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations import Reservation, explained, held_mask, without_units
from apps.scheduling.core.types import Placed, Policy, Refused
from apps.scheduling.services.proposals import SizedJob


class Around(NamedTuple):
    """The reservations at one moment, in cluster seconds."""

    known: Sequence[Reservation]
    facts: TopologyFacts
    now_s: float


def place_around(
    policy: Policy,
    snapshot: Snapshot,
    ready: Sequence[SizedJob],
    rng: np.random.Generator,
    *,
    around: Around,
) -> list[Placed | Refused]:
    """Return one outcome per job, in order; jobs that end too late see no reserved unit.

    Jobs that the same reservations bind are one batch of the policy; the others see their use.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, sized_job in enumerate(ready):
        ends_s = around.now_s + sized_job.longest_s
        binding = (i for i, x in enumerate(around.known) if x.binds(sized_job.job.id, ends_s))
        groups.setdefault(tuple(binding), []).append(place)
    outcomes: dict[int, Placed | Refused] = {}
    taken = np.zeros(snapshot.unit_free.size, dtype=np.bool_)
    for bound, places in groups.items():
        held = held_mask(snapshot.topology, [around.known[i] for i in bound])
        seen = without_units(snapshot, held | taken)
        requests = [ready[place].request for place in places]
        for request, place, outcome in zip(
            requests, places, policy.place(seen, requests, rng), strict=True
        ):
            outcomes[place] = outcome
            if isinstance(outcome, Placed):
                taken[outcome.units] = True
            else:
                outcomes[place] = explained(outcome, request, snapshot, around.facts, held)
    return [outcomes[place] for place in range(len(ready))]
