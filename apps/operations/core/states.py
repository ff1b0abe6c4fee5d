"""States of a long-running operation and the topics of the event stream."""

from enum import StrEnum
from typing import Final


class OperationStatus(StrEnum):
    """State of a long-running operation."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset(
    {OperationStatus.SUCCEEDED, OperationStatus.FAILED, OperationStatus.CANCELLED}
)


class Topic(StrEnum):
    """Subject area of an event; clients subscribe to topics."""

    JOBS = "jobs"
    DECISIONS = "decisions"
    SERVERS = "servers"
    APPLICATIONS = "applications"
    OPERATIONS = "operations"
    FRONTS = "fronts"
    PLANS = "plans"
    CLUSTER = "cluster"
