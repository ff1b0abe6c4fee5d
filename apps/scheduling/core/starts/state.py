"""State of a simulation of the queue, in arrays that compiled functions change."""

from typing import NamedTuple

from apps.common.core.event_heap import EventHeap
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.starts.parts import Parts

NOBODY = -1


class Pools(NamedTuple):
    """P sets of units that the same requests may use.

    Attributes
    ----------
    holder : (P,) the group for which the units are reserved, or `NOBODY`
    until_s : (P,) when its job starts, seconds from now
    """

    holder: Ints
    until_s: Floats


class Groups(NamedTuple):
    """G sets of jobs with equal requests, in the order in which agents try them.

    Attributes
    ----------
    allowed : (G, P) pools that the jobs may use
    units, fewest : (G,) units of a job, and those with which it may start
    on_one_server : (G,) whether the units of a job must be on one server
    jobs, first : (G,) number of waiting jobs, and index of the first of them among all jobs
    priority : (G,)
    run_s, longest_s : (G,) predicted run time on all units, and its pessimistic end; infinite if
        the end of a job is unknown
    ratios : (G, Q) quantiles of the run time relative to the predicted one
    refused : (G,) free units that would suffice by their number, and were refused
    reserve_s : (G,) seconds until the first job may keep freed units; infinite: never
    patience_s : (J,) seconds until each job takes the refused units too; infinite: never; empty
        if no job ever does
    """

    allowed: Bools
    units: Ints
    fewest: Ints
    on_one_server: Bools
    jobs: Ints
    first: Ints
    priority: Ints
    run_s: Floats
    longest_s: Floats
    ratios: Floats
    refused: Ints
    reserve_s: Floats
    patience_s: Floats


class Arrivals(NamedTuple):
    """Jobs that will be submitted: the groups of recent ones, and the mean time between them."""

    groups: Ints
    gap_s: float


class Reserving(NamedTuple):
    """How units are kept for jobs that have waited long.

    Attributes
    ----------
    at_most : jobs that units are kept for at once
    is_counted : whether only the number of units is kept, and planned again at each event (EASY);
        else the units are named until the planned start has passed
    """

    at_most: int
    is_counted: bool


class Run(NamedTuple):
    """State of one simulation.

    Attributes
    ----------
    parts : free units of the servers, without those in `aside`
    free : (P,) the same by pool
    aside, kept_part : (N,) free units of a part that is kept for a job on one server, or `NOBODY`;
        (G,) the part, or `NOBODY`
    kept : (P,) units of `free` that are kept for other jobs that have waited long
    shadow_s : (G,) when enough units are free for such a job; infinite: not planned
    kept_until : (1,) the first of these times; jobs that end before it are backfilled
    left, begun : (G,) waiting jobs, including later arrivals; jobs started
    refused, reserve_s : (G,) as in `Groups`
    order : (G,) the groups, first tried first
    moves, scratch : (G,) groups that started a job, and room to sort them
    ends : releases that have not happened
    part, units, planned_s : of each release; until when agents plan with it
    draws : uniform numbers
    tally : releases so far, numbers used, jobs of the queue that still wait, parts that are kept
    """

    parts: Parts
    free: Ints
    aside: Ints
    kept_part: Ints
    kept: Ints
    shadow_s: Floats
    kept_until: Floats
    left: Ints
    begun: Ints
    refused: Ints
    reserve_s: Floats
    order: Ints
    moves: Bools
    scratch: Ints
    ends: EventHeap
    part: Ints
    units: Ints
    planned_s: Floats
    draws: Floats
    tally: Ints
