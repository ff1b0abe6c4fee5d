"""Names of codes as the pages show them."""

from typing import Final

from apps.common.core import interference
from apps.dashboard.core import formats

SOURCE_NAMES: Final = interference.SOURCE_NAMES

HIDDEN_JOB: Final = "a job of another project"
REASONS: Final = {  # short, for lists; the full sentences are in workloads.core.reasons
    "Invalid": "invalid specification",
    "Held": "on hold",
    "WaitingForArray": "waits for its array",
    "Unclassifiable": "could not be classified",
    "ProfilingFailed": "profiling failed",
    "InfeasibleTarget": "no platform meets the target",
    "CostExceeded": "costs more than the ceiling",
    "NoMatchingServer": "no server matches",
    "ServersClosed": "matching servers are cordoned or drained",
    "LocalityShort": "free units too far apart",
    "SpreadShort": "free units too close together",
    "CapacityShort": "not enough free capacity",
    "NotEnoughFreeUnits": "not enough free units",
    "NoFreeUnit": "no free unit",
    "UnitsReserved": "units reserved for another job",
    "QuotaExceeded": "quota of the project used",
    "QualityShort": "free units too contended",
    "WaitingForBucket": "more units expected soon",
    "WaitingForProfile": "being profiled",
    "WaitingForAgent": "waiting for an agent",
    "CommitConflict": "commit conflict",
    "PolicyFailed": "placement policy failed",
    "BackendLost": "backend stopped responding",
    "Preempted": "preempted by a job of higher priority",
    "Starting": "being launched",
    "PlacedBestOfSample": "best unit of the sample",
    "PlacedBestExpected": "best expected performance",
    "PlacedBestOfAll": "on the best of all units",
    "PlacedLeastLoaded": "on the least loaded server",
    "PlacedAtRandom": "on a random server",
    "MeetsTarget": "meets its target",
    "BelowTarget": "below its target",
    "Succeeded": "completed",
    "JobFailed": "ended with an error",
    "TooManyAttempts": "too many launches",
    "Cancelled": "cancelled",
}

SHORT_SOURCES: Final = {  # for the heads of narrow columns
    "memory_capacity": "Mem. cap.",
    "memory_bandwidth": "Mem. bandw.",
    "llc_capacity": "LLC cap.",
    "llc_bandwidth": "LLC bandw.",
    "l1i": "L1 instr.",
}

TARGET_KINDS: Final = {
    "completion_time": "completion time",
    "throughput_latency": "queries/s within latency",
    "ips": "instructions/s",
    "best_effort": "best effort",
}

OPERATIONS: Final = {
    "batch.submit": "Batch of jobs",
    "classification.reclassify": "Retraining",
    "lab.comparison": "Comparison in the Lab",
    "pair.measured": "Measurement of a pair",
    "placement.front": "Search for a front",
    "placement.plan": "Planning",
    "profiling": "Profiling",
    "sampling.check": "Sampling check",
}


def operation_text(kind: str) -> str:
    """Return the name of a kind of operation, or the kind if it is unknown."""
    return OPERATIONS.get(kind, kind)


def reason_text(code: str) -> str:
    """Return the text of a reason code, or the code if it is unknown."""
    return REASONS.get(code, code) or "no reason given"


def class_text(kind: str) -> str:
    """Return a class of start estimates, such as "ips, 1 unit", with the target in words."""
    target, _, size = kind.partition(", ")
    return f"{TARGET_KINDS.get(target, target)}, {size}"


ONLY_IF_CHANGED: Final = "only if its request or the cluster changes"


def start_text(p50_s: float | None, p90_s: float | None, ahead: int) -> str:
    """Return a predicted start in words, e.g. "in 3 min to 7 min (p50 to p90), after 2 jobs"."""
    behind = f", after {formats.plural(ahead, 'job')}" if ahead else ""
    if p50_s is None:
        return f"unknown: the time when units become free cannot be predicted{behind}"
    if p90_s is None:
        return f"in {formats.duration(p50_s)} (p50; p90 unknown){behind}"
    return f"in {formats.duration(p50_s)} to {formats.duration(p90_s)} (p50 to p90){behind}"
