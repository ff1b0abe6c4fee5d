"""Requests for the units that a running job still lacks."""

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.sizing.sizes import Infeasible, Sized
from apps.scheduling.core.types import Request


def missing_size(sized: Sized | Infeasible, missing: int, *, has_ceiling: bool = False) -> Sized:
    """Return the size of the missing units, on the platforms that meet the target.

    Any platform that the job allows if none meets it any more; none with a ceiling on its cost.
    """
    platforms = frozenset[str]() if has_ceiling else None
    if isinstance(sized, Sized):
        platforms = sized.platforms
    return Sized(missing, platforms, None, math.nan, math.nan, math.nan, math.nan)


def missing_request(request: Request, topology: Topology, held: Collection[int]) -> Request:
    """Return the request of missing units: any number of them, apart from those it has.

    A policy counts the units that the job has as those of another job: they press on the missing
    ones and lose by them, unlike the units of a job that is placed at once.

    Parameters
    ----------
    held : ids of the servers on which a job with a spread constraint has units
    """
    excluded = np.isin(topology.server_id, list(held))
    if request.spread is not None:
        place = place_of(topology, request.spread)
        excluded = np.isin(place, place[excluded])
    chosen = frozenset(np.flatnonzero(excluded).tolist()) if held else frozenset[int]()
    return replace(
        request, gang=False, reserved=None, goal=None, excluded=request.excluded | chosen
    )
