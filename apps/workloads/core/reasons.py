"""Why a job is where it is: one resolved reason by tier, the others listed beside it.

Source of the tiers: ``kueue`` PR #11720; the order is Invalid > Held > Unclassifiable >
InfeasibleTarget > QuotaExceeded > QualityShort > WaitingForBucket > CommitConflict > Starting,
then where the job runs or ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Machine-readable cause of a job's state; stable, CamelCase as in ``conditions[].reason``."""

    INVALID = "Invalid"
    HELD = "Held"
    UNCLASSIFIABLE = "Unclassifiable"
    PROFILING_FAILED = "ProfilingFailed"
    INFEASIBLE_TARGET = "InfeasibleTarget"
    NO_MATCHING_SERVER = "NoMatchingServer"
    QUOTA_EXCEEDED = "QuotaExceeded"
    QUALITY_SHORT = "QualityShort"
    CAPACITY_SHORT = "CapacityShort"
    SERVERS_CLOSED = "ServersClosed"
    LOCALITY_SHORT = "LocalityShort"
    SPREAD_SHORT = "SpreadShort"
    NOT_ENOUGH_FREE_UNITS = "NotEnoughFreeUnits"
    NO_FREE_UNIT = "NoFreeUnit"
    WAITING_FOR_BUCKET = "WaitingForBucket"
    WAITING_FOR_PROFILE = "WaitingForProfile"
    WAITING_FOR_AGENT = "WaitingForAgent"
    COMMIT_CONFLICT = "CommitConflict"
    BACKEND_LOST = "BackendLost"
    PREEMPTED = "Preempted"
    STARTING = "Starting"
    PLACED_BEST_OF_SAMPLE = "PlacedBestOfSample"
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
    """What a reason says to a person.

    Attributes
    ----------
    tier : 1 (outranks all others) to 10
    sentence : what is the case, in plain words
    next_action : what the reader can do, or why nothing need be done
    """

    tier: int
    sentence: str
    next_action: str


MEANINGS: Final[dict[Reason, Meaning]] = {
    Reason.INVALID: Meaning(
        1,
        "The specification of the job breaks a rule.",
        "Correct the named fields and submit the job again.",
    ),
    Reason.HELD: Meaning(
        2,
        "Somebody holds the job; it is not considered for placement.",
        "Release the job when it may start.",
    ),
    Reason.UNCLASSIFIABLE: Meaning(
        3,
        "Too little is known about the application to predict how it would perform.",
        "Have the application profiled again, or give the job a fixed number of units.",
    ),
    Reason.PROFILING_FAILED: Meaning(
        3,
        "The profiling runs of the application failed, so nothing can be predicted for it.",
        "Look at the application's last profiling run, then rerun the job.",
    ),
    Reason.INFEASIBLE_TARGET: Meaning(
        4,
        "No number of units on any allowed platform is predicted to meet the target.",
        "Relax the target to what the explanation calls feasible, or allow more platforms.",
    ),
    Reason.NO_MATCHING_SERVER: Meaning(
        4,
        "No server of the cluster, free or busy, satisfies the job's constraints.",
        "Check the platforms and labels the job asks for against the servers page.",
    ),
    Reason.QUOTA_EXCEEDED: Meaning(
        5,
        "The project holds as much of the cluster as it may.",
        "Wait for jobs of the project to end, or ask an admin for a larger quota.",
    ),
    Reason.QUALITY_SHORT: Meaning(
        6,
        "Units are free, but on none would both the job and its neighbours keep their promise.",
        "Wait for a better unit, relax the target, or allow more platforms.",
    ),
    Reason.CAPACITY_SHORT: Meaning(
        7,
        "Units are free, but without the memory, network or storage the job asks for beside them.",
        "Wait for jobs to end, or ask for less memory, network or storage per unit.",
    ),
    Reason.SERVERS_CLOSED: Meaning(
        7,
        "The servers that match the job are drained, cordoned or silent.",
        "Reopen them on the servers page, or allow other platforms.",
    ),
    Reason.LOCALITY_SHORT: Meaning(
        7,
        "Enough units are free, but not near enough to each other.",
        "Wait for jobs to end, or relax the locality.",
    ),
    Reason.SPREAD_SHORT: Meaning(
        7,
        "Enough units are free, but not far enough apart.",
        "Wait for jobs to end, or relax the spread.",
    ),
    Reason.NOT_ENOUGH_FREE_UNITS: Meaning(
        7,
        "Fewer units than the job needs are free, and it starts only with all of them.",
        "Wait for jobs to end, ask for fewer units, or let the job start incrementally.",
    ),
    Reason.NO_FREE_UNIT: Meaning(
        7,
        "Every unit the job may use is busy.",
        "Wait for jobs to end, or allow more platforms.",
    ),
    Reason.WAITING_FOR_BUCKET: Meaning(
        7,
        "The job waits in its admission class until units of the needed quality are free.",
        "Nothing to do; the wait estimate says how long it usually takes.",
    ),
    Reason.WAITING_FOR_PROFILE: Meaning(
        7,
        "The application is new and is being measured in a few short runs.",
        "Nothing to do; profiling takes seconds to a few minutes.",
    ),
    Reason.WAITING_FOR_AGENT: Meaning(
        7,
        "No scheduling agent has looked at the job yet.",
        "Nothing to do; if this lasts, check on the System page that agents are running.",
    ),
    Reason.COMMIT_CONFLICT: Meaning(
        8,
        "Other agents took the chosen units first; the job is tried again.",
        "Nothing to do; the next try looks at fresh units.",
    ),
    Reason.BACKEND_LOST: Meaning(
        8,
        "The place where the job ran went silent, so the job waits for a new one.",
        "Nothing to do; check the server's heartbeat if it happens again.",
    ),
    Reason.PREEMPTED: Meaning(
        8,
        "The job gave its units to a more urgent one and waits for new ones.",
        "Nothing to do, or raise the job's priority.",
    ),
    Reason.STARTING: Meaning(
        9,
        "Units are committed and the job is being launched on them.",
        "Nothing to do; a launch takes seconds.",
    ),
    Reason.PLACED_BEST_OF_SAMPLE: Meaning(
        9,
        "Placed on the best of the units that were sampled.",
        "Nothing to do; the candidates show what else was examined.",
    ),
    Reason.PLACED_LEAST_LOADED: Meaning(
        9,
        "Placed on the least loaded server that fits.",
        "Nothing to do; the candidates show what else was examined.",
    ),
    Reason.PLACED_AT_RANDOM: Meaning(
        9,
        "Placed on a server drawn at random among those that fit.",
        "Nothing to do; choose another policy if the neighbours matter.",
    ),
    Reason.MEETS_TARGET: Meaning(
        10,
        "The job runs and keeps its target.",
        "Nothing to do.",
    ),
    Reason.BELOW_TARGET: Meaning(
        10,
        "The job runs but performs below its target.",
        "Look at the neighbours on its servers, or relax the target.",
    ),
    Reason.SUCCEEDED: Meaning(
        10,
        "The job has done all its work.",
        "Nothing to do.",
    ),
    Reason.JOB_FAILED: Meaning(
        10,
        "The job itself ended with an error.",
        "Read its events, correct the cause and rerun it.",
    ),
    Reason.TOO_MANY_ATTEMPTS: Meaning(
        10,
        "The job was launched as often as allowed and never finished.",
        "Read its events to see why the launches were lost, then rerun it.",
    ),
    Reason.CANCELLED: Meaning(
        10,
        "Somebody cancelled the job.",
        "Rerun the job if that was a mistake.",
    ),
}


def resolve(reasons: Iterable[Reason]) -> tuple[Reason | None, tuple[Reason, ...]]:
    """Pick the reason to show among all that hold, and list the ones it outranks.

    Ties within a tier go to the one declared first, so that the answer never flickers.
    """
    order = {reason: place for place, reason in enumerate(Reason)}
    ranked = sorted(set(reasons), key=lambda reason: (MEANINGS[reason].tier, order[reason]))
    return (ranked[0], tuple(ranked[1:])) if ranked else (None, ())
