"""Policies of the papers' evaluations, assembled from parts (P5, P6, P13, Q13, T12, C9)."""

import math
from functools import partial
from typing import Final

from apps.scheduling.core import packing, samplers, scorers
from apps.scheduling.core.paragon import hashing
from apps.scheduling.core.paragon import selection as paragon
from apps.scheduling.core.policies import AssembledPolicy, Scorer, least_loaded
from apps.scheduling.core.types import MAX_UNITS, Request
from apps.workloads.core.targets import ThroughputLatency

SAMPLED: Final = 2  # candidates per unit of a sampling scheduler (Sparrow)
LOAD: Final = 0.7  # of an instance above which an autoscaler adds one


def paragon_greedy(limit: int = paragon.LIMIT) -> AssembledPolicy:
    """Paragon's greedy search: source by source, with backtracking and a limit (P5).

    Source: Paragon §3.2.
    """
    return _over_all("paragon_greedy", partial(paragon.greedy, limit=limit))


def paragon_sampling(candidates: int = 16) -> AssembledPolicy:
    """Paragon's statistical selection: the best colocation of R hashed candidates (P6).

    Source: Paragon §3.3.
    """
    return AssembledPolicy(
        "paragon_sampling",
        4,
        # R·m units of servers found by hashes of the scores
        sample=hashing.by_hash,
        near=samplers.neighbourhoods,
        # how closely the tolerance of the server follows what the job causes
        score=paragon.colocation,
    ).drawing(candidates)


def heterogeneity_oblivious(limit: int = paragon.LIMIT) -> AssembledPolicy:
    """Paragon's greedy search without platforms (P13). Source: Paragon §5."""
    score = partial(paragon.greedy, sees_platforms=False, limit=limit)
    return _over_all("heterogeneity_oblivious", score)


def interference_oblivious() -> AssembledPolicy:
    """Fastest platform first, without interference (P13). Source: Paragon §5."""
    return AssembledPolicy(
        "interference_oblivious",
        1,
        sample=samplers.everything,
        near=samplers.everything,
        score=paragon.fastest,
        is_full=True,
    )


def sampling(candidates: int = SAMPLED) -> AssembledPolicy:
    """Place on the least loaded of R random units, as Tarcil's generic scheduler (T12).

    Source: Tarcil §6.3, after Sparrow: batch sampling, no knowledge of jobs or platforms.
    """
    return AssembledPolicy(
        "sampling",
        4,
        sample=samplers.in_order,
        near=samplers.neighbourhoods,
        score=partial(scorers.load, is_sample=True),
    ).drawing(candidates)


def reservation_least_loaded() -> AssembledPolicy:
    """Place the units that the user reserved on the least loaded servers (Q13).

    Source: Quasar §5, reservation + LL.
    """
    return least_loaded("reservation_least_loaded").sized_by(_reserved)


def reservation_paragon(limit: int = paragon.LIMIT) -> AssembledPolicy:
    """Place the units that the user reserved by Paragon's greedy search (Q13).

    Source: Quasar §5, reservation + Paragon.
    """
    score = partial(paragon.greedy, limit=limit)
    return _over_all("reservation_paragon", score).sized_by(_reserved)


def autoscale(load: float = LOAD) -> AssembledPolicy:
    """Services sized to keep each unit below a load, on the least loaded servers (Q13).

    The load is that of units of the highest-end platform, as an autoscaler knows neither platforms
    nor interference. Other jobs get what the user reserved. Source: Quasar §5.
    """
    return least_loaded("autoscale").sized_by(partial(_below_load, load=load))


def slot_rr() -> AssembledPolicy:
    """Fill all units of a server before the next server (SlotRR, C9). Source: ClavisMO §1."""
    return _of_every_unit("slot_rr", packing.first_slot)


def node_rr() -> AssembledPolicy:
    """Give each unit to the server with the fewest units in use (NodeRR, C9).

    Source: ClavisMO §1.
    """
    return _of_every_unit("node_rr", packing.fewest_held)


def dot_product() -> AssembledPolicy:
    """Pack servers in use by the dot product of free capacity and demand (C9).

    Source: ClavisMO §4.5, Panigrahy et al. 2011.
    """
    return _of_every_unit("dot_product", packing.dot_product, version=2)


def _of_every_unit(name: str, score: Scorer, *, version: int = 1) -> AssembledPolicy:
    """Return a policy that scores all eligible units."""
    return AssembledPolicy(
        name,
        version,
        sample=samplers.everything,
        near=samplers.everything,
        score=score,
        is_full=True,
    )


def _over_all(name: str, score: Scorer) -> AssembledPolicy:
    """Return a policy that compares the first free units of all servers."""
    return AssembledPolicy(
        name,
        1,
        sample=samplers.leading,
        near=samplers.everything,
        score=score,
        is_full=True,
    )


def _reserved(request: Request) -> int:
    return request.reserved or request.units


def _below_load(request: Request, *, load: float) -> int:
    goal = request.goal
    if goal is None or not isinstance(goal.target, ThroughputLatency):
        return _reserved(request)
    needed = goal.target.qps / (load * goal.profile.base_rate)
    return min(MAX_UNITS, max(1, math.ceil(needed)))
