"""Jobs in the hands of an agent of a replay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apps.scheduling.core.types import Placed
from apps.testbed.core.replay.demand import Shape, SizedRequest
from apps.testbed.core.replay.migrating import RunningJob
from apps.testbed.core.replay.waiting import Refusal


class Decided(NamedTuple):
    """A job whose units are chosen."""

    job: int
    sized: SizedRequest
    placed: Placed


@dataclass(slots=True)
class Batch:
    """Jobs in the hands of an agent.

    Attributes
    ----------
    keys : shape of each job
    waited : shapes that waited before
    growing : runs of those of the jobs that run and lack units
    proposals : decisions to commit
    refused : jobs that must wait, with their refusal
    attempt : decisions that lost a conflict before
    sequence : change-log number of the copy of the last decisions
    """

    keys: dict[int, Shape]
    waited: set[Shape]
    growing: Mapping[int, RunningJob] = field(default_factory=dict)
    proposals: list[Decided] = field(default_factory=list)
    refused: list[tuple[int, Refusal]] = field(default_factory=list)
    attempt: int = 0
    sequence: int = 0
