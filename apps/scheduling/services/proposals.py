"""Results of decisions that agents submit: proposals to commit, and refusals."""

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from apps.classification.core.profile import Profile
from apps.common.core.ids import uuid7
from apps.inventory.core.snapshot import Topology
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.core.tarcil.job_sampling import DEFAULT_SAMPLING, Sampling
from apps.scheduling.core.types import Placed, Refused, Request
from apps.scheduling.selectors import ClaimedJob
from apps.workloads.core.reasons import Reason
from apps.workloads.core.shapes import Needs

if TYPE_CHECKING:
    from apps.scheduling.services.batches import BatchPlace


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Name and versions of an agent, as stored with its decisions.

    Attributes
    ----------
    draws_sample : of its policy; placements say whether they are the best of a sample or of all
    """

    name: str
    policy: str
    policy_version: int
    code_version: str
    draws_sample: bool


class CopyVersion(NamedTuple):
    """Age and content of an agent's copy of the cluster at a decision.

    Attributes
    ----------
    read_s : when it was read from the change log, monotonic wall seconds
    known : number of the change log that it was read to, plus the agent's own changes since
    """

    read_s: float
    known: int


@dataclass(frozen=True, slots=True, eq=False)
class SizedJob:
    """A job with its size and request.

    Attributes
    ----------
    profile_id : None if the profile is a typical one, not the application's own
    topology : the one whose platforms the request indexes
    sampling : R of the request, and what it follows from
    run : predicted run time; None = unknown
    """

    job: ClaimedJob
    profile_id: UUID | None
    profile: Profile
    sized: Sized
    request: Request
    topology: Topology
    sampling: Sampling = DEFAULT_SAMPLING
    run: RunTime | None = None

    @property
    def longest_s(self) -> float:
        """Pessimistic run time in cluster seconds, even if it starts with one unit."""
        if self.run is None or self.job.missing:
            return math.inf
        return self.run.high * (1 if self.is_whole else self.sized.units)

    @property
    def is_whole(self) -> bool:
        """Whether it starts with all units or none."""
        return self.request.is_whole


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Units chosen for a job, to be committed.

    Attributes
    ----------
    elapsed_s : wall seconds the decision took
    retries : commits that failed before
    place : in the batch that the policy decided; None: the batch is not stored
    """

    sized_job: SizedJob
    placed: Placed
    elapsed_s: float
    retries: int = 0
    place: "BatchPlace | None" = None

    @property
    def job(self) -> ClaimedJob:
        """The job to place."""
        return self.sized_job.job

    @property
    def wanted(self) -> int:
        """Units that the job is to have: those of its size, or those its policy decided on.

        A quota may let it request fewer now.
        """
        return self.placed.wanted or self.sized_job.sized.units

    @property
    def longest_s(self) -> float:
        """Pessimistic run time in cluster seconds on the units, which may be fewer than sized."""
        longest_s = self.sized_job.longest_s
        if not self.sized_job.is_whole:
            return longest_s
        return longest_s * max(1.0, self.sized_job.sized.units / self.placed.units.size)


@dataclass(frozen=True, slots=True, eq=False)
class LostProposal:
    """A proposal that was not committed.

    Attributes
    ----------
    is_gone : the job was cancelled, held or claimed by another agent: do not retry
    is_over_limit : it would exceed the maximum of its project
    """

    proposal: Proposal
    is_gone: bool
    is_over_limit: bool = False

    def next_try(self, ready: SizedJob) -> SizedJob:
        """Return the job to decide again; of its own size if the policy chose too large a one."""
        if not self.is_over_limit:
            return ready
        return replace(ready, request=ready.request.of_fixed_size())


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A job that could not be placed now, and why.

    Attributes
    ----------
    needs : what the job needs at least; None if the refusal does not depend on its request
    lost : the last placement, if all its commits failed
    retries : commits that it lost
    request, topology : that a policy refused; None before the policy
    run : predicted run time; None = unknown
    place : in the batch that the policy decided; None before the policy
    """

    job: ClaimedJob
    reason: Reason
    message: str
    units: int
    profile_id: UUID | None
    elapsed_s: float
    needs: Needs | None
    refused: Refused | None = None
    lost: Placed | None = None
    also: tuple[str, ...] = ()
    retries: int = 0
    sampling: Sampling = DEFAULT_SAMPLING
    request: Request | None = None
    topology: Topology | None = None
    run: RunTime | None = None
    place: "BatchPlace | None" = None
    decision_id: UUID = field(default_factory=uuid7)
