"""Reasons for a job's state: the highest-ranking one is shown, the others are listed with it.

Source of the tiers: ``kueue`` PR #11720. The order is Invalid > Held > Unclassifiable >
InfeasibleTarget > QuotaExceeded (5) > QualityShort (6) > reasons that wait for units (7) >
CommitConflict and PolicyFailed (8) > Starting (9), then the reasons of running and ended jobs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Machine-readable cause of a job's state; stable, CamelCase as in ``conditions[].reason``."""

    INVALID = "Invalid"
    HELD = "Held"
    WAITING_FOR_ARRAY = "WaitingForArray"
    UNCLASSIFIABLE = "Unclassifiable"
    PROFILING_FAILED = "ProfilingFailed"
    INFEASIBLE_TARGET = "InfeasibleTarget"
    COST_EXCEEDED = "CostExceeded"
    NO_MATCHING_SERVER = "NoMatchingServer"
    CAPACITY_SHORT = "CapacityShort"
    SERVERS_CLOSED = "ServersClosed"
    LOCALITY_SHORT = "LocalityShort"
    SPREAD_SHORT = "SpreadShort"
    NOT_ENOUGH_FREE_UNITS = "NotEnoughFreeUnits"
    NO_FREE_UNIT = "NoFreeUnit"
    UNITS_RESERVED = "UnitsReserved"
    QUOTA_EXCEEDED = "QuotaExceeded"
    QUALITY_SHORT = "QualityShort"
    WAITING_FOR_BUCKET = "WaitingForBucket"
    WAITING_FOR_PROFILE = "WaitingForProfile"
    WAITING_FOR_AGENT = "WaitingForAgent"
    COMMIT_CONFLICT = "CommitConflict"
    POLICY_FAILED = "PolicyFailed"
    BACKEND_LOST = "BackendLost"
    PREEMPTED = "Preempted"
    STARTING = "Starting"
    PLACED_BEST_OF_SAMPLE = "PlacedBestOfSample"
    PLACED_BEST_EXPECTED = "PlacedBestExpected"
    PLACED_BEST_OF_ALL = "PlacedBestOfAll"
    PLACED_LEAST_LOADED = "PlacedLeastLoaded"
    PLACED_AT_RANDOM = "PlacedAtRandom"
    MEETS_TARGET = "MeetsTarget"
    BELOW_TARGET = "BelowTarget"
    SUCCEEDED = "Succeeded"
    JOB_FAILED = "JobFailed"
    TOO_MANY_ATTEMPTS = "TooManyAttempts"
    CANCELLED = "Cancelled"


@dataclass(frozen=True, slots=True)
class Meaning:
    """A reason explained to users.

    Attributes
    ----------
    tier : 1 (highest rank) to 10
    sentence : the cause
    next_action : what the user can do, or that no action is needed
    """

    tier: int
    sentence: str
    next_action: str


# A job that was never launched fails with them; one that was launched waits.
PERMANENT: Final = frozenset(
    {Reason.INFEASIBLE_TARGET, Reason.COST_EXCEEDED, Reason.INVALID, Reason.UNCLASSIFIABLE}
)
MEANINGS: Final[dict[Reason, Meaning]] = {
    Reason.INVALID: Meaning(
        1,
        "The job's specification is invalid.",
        "Correct the named fields and submit the job again.",
    ),
    Reason.HELD: Meaning(
        2,
        "The job is on hold and is not considered for placement.",
        "Release the job to let it start.",
    ),
    Reason.WAITING_FOR_ARRAY: Meaning(
        2,
        "The job waits because as many members of its array as its limit allows wait or run.",
        "Nothing to do; it is evaluated when a member ends. Raise the limit to start more.",
    ),
    Reason.UNCLASSIFIABLE: Meaning(
        3,
        "Too little is known about the application to predict its performance.",
        "Profile the application again, or give the job a fixed number of units.",
    ),
    Reason.PROFILING_FAILED: Meaning(
        3,
        "The application's profiling runs failed, so its performance cannot be predicted.",
        "Check the application's last profiling run, then rerun the job.",
    ),
    Reason.INFEASIBLE_TARGET: Meaning(
        4,
        "No number of units on any allowed platform is predicted to meet the target.",
        "Relax the target to the suggested value, or allow more platforms if any is excluded.",
    ),
    Reason.COST_EXCEEDED: Meaning(
        4,
        "Every placement that meets the target is predicted to cost more than the ceiling.",
        "Raise max_cost to at least the cheapest cost found.",
    ),
    Reason.NO_MATCHING_SERVER: Meaning(
        4,
        "The job does not fit on the servers of the cluster, even if all their units are free.",
        "Compare its units and constraints with the Cluster map, then submit it with other ones.",
    ),
    Reason.CAPACITY_SHORT: Meaning(
        7,
        "Units are free, but their servers lack the memory, network or storage requested.",
        "Wait for jobs to end, or request less memory, network or storage per unit.",
    ),
    Reason.SERVERS_CLOSED: Meaning(
        7,
        "All servers that match the job are drained, cordoned or down.",
        "Reopen them on the Cluster map, or allow other platforms.",
    ),
    Reason.LOCALITY_SHORT: Meaning(
        7,
        "Enough units are free, but not within one server, rack or switch as required.",
        "Wait for jobs to end, or relax the locality constraint.",
    ),
    Reason.SPREAD_SHORT: Meaning(
        7,
        "Enough units are free, but not on enough different servers, racks or switches.",
        "Wait for jobs to end, or relax the spread constraint.",
    ),
    Reason.NOT_ENOUGH_FREE_UNITS: Meaning(
        7,
        "The job needs all its units to start, and fewer are free.",
        "Wait for jobs to end, request fewer units, or turn off gang scheduling.",
    ),
    Reason.NO_FREE_UNIT: Meaning(
        7,
        "All units that the job may use are busy.",
        "Wait for jobs to end, or allow more platforms if any is excluded.",
    ),
    Reason.UNITS_RESERVED: Meaning(
        7,
        "The free units are reserved: for a job that was refused earlier, or by a preemption.",
        "Nothing to do; until then, only jobs that end before the reserved start may use them.",
    ),
    Reason.QUOTA_EXCEEDED: Meaning(
        5,
        "The project has used its quota, and may borrow no further units now.",
        "Wait for the project's jobs to end, request fewer units, or ask for a higher quota.",
    ),
    Reason.QUALITY_SHORT: Meaning(
        6,
        "The free units are too contended for the job, and it may still wait for better ones.",
        "Nothing to do; if better ones take too long, it starts on the free units.",
    ),
    Reason.WAITING_FOR_BUCKET: Meaning(
        7,
        "Fewer units are free than the job needs, and the others are expected soon.",
        "Nothing to do; if the others take too long, it starts on the free units.",
    ),
    Reason.WAITING_FOR_PROFILE: Meaning(
        7,
        "The application is new and is being profiled in a few short runs.",
        "Nothing to do; profiling takes seconds to a few minutes.",
    ),
    Reason.WAITING_FOR_AGENT: Meaning(
        7,
        "No scheduling agent has evaluated the job yet.",
        "Nothing to do; if this lasts, check on the System page that agents are running.",
    ),
    Reason.COMMIT_CONFLICT: Meaning(
        8,
        "Other agents allocated the chosen units first; the job will be retried.",
        "Nothing to do; the next attempt uses current data.",
    ),
    Reason.POLICY_FAILED: Meaning(
        8,
        "The placement policy raised an error; the job will be retried.",
        "Submit the job with another policy, or ask an administrator to apply another one.",
    ),
    Reason.BACKEND_LOST: Meaning(
        8,
        "A server of the job stopped responding, so the job was requeued.",
        "Nothing to do; check the server's heartbeat if this happens again.",
    ),
    Reason.PREEMPTED: Meaning(
        8,
        "The job gave its units to a job of higher priority, and was requeued.",
        "Nothing to do; it starts again when units are free. A higher priority protects it.",
    ),
    Reason.STARTING: Meaning(
        9,
        "Units are allocated and the job is being launched on them.",
        "Nothing to do; a launch takes seconds.",
    ),
    Reason.PLACED_BEST_OF_SAMPLE: Meaning(
        9,
        "Placed on the best of the sampled units.",
        "Nothing to do; the candidates table lists the units examined.",
    ),
    Reason.PLACED_BEST_EXPECTED: Meaning(
        9,
        "Placed where the expected performance is the best of all units that fit.",
        "Nothing to do; the candidates table lists the best of them.",
    ),
    Reason.PLACED_BEST_OF_ALL: Meaning(
        9,
        "Placed on the best of all units that fit.",
        "Nothing to do; the candidates table lists the best of them.",
    ),
    Reason.PLACED_LEAST_LOADED: Meaning(
        9,
        "Placed on the least loaded server that fits.",
        "Nothing to do; the candidates table lists the units examined.",
    ),
    Reason.PLACED_AT_RANDOM: Meaning(
        9,
        "Placed on a randomly chosen server that fits.",
        "Nothing to do; choose another policy if interference matters.",
    ),
    Reason.MEETS_TARGET: Meaning(
        10,
        "The job is running and meets its target.",
        "Nothing to do.",
    ),
    Reason.BELOW_TARGET: Meaning(
        10,
        "The job is running below its target.",
        "See the diagnosis of the job for suspects and remedies.",
    ),
    Reason.SUCCEEDED: Meaning(
        10,
        "The job has completed all its work.",
        "Nothing to do.",
    ),
    Reason.JOB_FAILED: Meaning(
        10,
        "The job ended with an error.",
        "Check its events, correct the cause and rerun it.",
    ),
    Reason.TOO_MANY_ATTEMPTS: Meaning(
        10,
        "The job reached its launch limit without finishing.",
        "Check its events to see why the launches failed, then rerun it.",
    ),
    Reason.CANCELLED: Meaning(
        10,
        "The job was cancelled by a user.",
        "Rerun the job if that was a mistake.",
    ),
}


def reason_of_hold(code: str) -> Reason:
    """Return the reason of a job that is on hold: by its user, or by the limit of its array."""
    return Reason.WAITING_FOR_ARRAY if code == Reason.WAITING_FOR_ARRAY else Reason.HELD


def resolve(reasons: Iterable[Reason]) -> tuple[Reason | None, tuple[Reason, ...]]:
    """Return the highest-ranking reason and the others in order of rank.

    Within a tier, the reason declared first wins, so that the result is stable.
    """
    order = {reason: place for place, reason in enumerate(Reason)}
    ranked = sorted(set(reasons), key=lambda reason: (MEANINGS[reason].tier, order[reason]))
    return (ranked[0], tuple(ranked[1:])) if ranked else (None, ())
