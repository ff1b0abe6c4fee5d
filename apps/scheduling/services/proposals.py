"""What agents hand in: choices to be committed, and refusals."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.sizing import Sized
from apps.scheduling.core.types import Placed, Refused, Request
from apps.scheduling.selectors import ClaimedJob
from apps.workloads.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Agent:
    """Who decides, by what."""

    name: str
    policy: str
    policy_version: int
    code_version: str


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Units chosen for a job, to be committed.

    Attributes
    ----------
    retries : commits lost before
    elapsed_s : wall seconds the decision took
    """

    job: ClaimedJob
    sized: Sized
    request: Request
    placed: Placed
    topology: Topology
    profile_id: UUID | None
    elapsed_s: float
    retries: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Lost:
    """A proposal that won nothing."""

    proposal: Proposal
    is_gone: bool  # the job was cancelled, held or taken over: nothing to decide any more


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A job that could not be placed now, and why."""

    job: ClaimedJob
    reason: Reason
    message: str
    units: int
    profile_id: UUID | None
    elapsed_s: float
    refused: Refused | None = None
    lost: Placed | None = None  # the last choice of a job that only lost commits
    also: tuple[str, ...] = ()
    retries: int = 0


class Won(NamedTuple):
    """A proposal that won, and which of its units."""

    proposal: Proposal
    decision: UUID
    positions: tuple[int, ...]  # in placed.units
