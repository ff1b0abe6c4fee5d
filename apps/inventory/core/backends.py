"""The backends that execute jobs, and what each can do.

Schedulers, plans and pages read these capabilities and assume none.
"""

from enum import StrEnum
from typing import Final

EMULATED: Final = "emulated"
AGENT: Final = "agent"
SLURM: Final = "slurm"
KUBERNETES: Final = "kubernetes"
MACHINES: Final = "machines"  # channel that wakes agents of machines: there may be orders


class Capability(StrEnum):
    """Operations that a backend can support."""

    CORES = "cores"  # run a job on the cores that its units name
    COMMANDS = "commands"  # run the command of a job
    MOVE_LIVE = "move: live"  # migrate a running job and keep its work
    MOVE_RESTART = "move: restart"  # stop a running job and start it on another server
    SUSPEND = "suspend"  # stop the processes of a running job, and continue them
    PROBE = "probe"  # profile a new application
    PROBE_COMMANDS = "probe: commands"  # profile a copy of a command that permits it
    USAGE = "usage"  # report what a job uses
    COUNTERS = "counters"  # report readings of hardware counters
    GROW = "grow"  # give units to a running job
    REQUEUE = "requeue"  # stop a running job and start it again later
    RESUME = "resume"  # a job that is started again continues from its last report


CAPABILITIES: Final[dict[str, frozenset[Capability]]] = {
    EMULATED: frozenset(
        {
            Capability.MOVE_LIVE,
            Capability.PROBE,
            Capability.USAGE,
            Capability.COUNTERS,
            Capability.GROW,
            Capability.REQUEUE,
            Capability.RESUME,
        }
    ),
    AGENT: frozenset(
        {
            Capability.CORES,
            Capability.COMMANDS,
            Capability.MOVE_RESTART,
            Capability.PROBE_COMMANDS,
            Capability.SUSPEND,
            Capability.USAGE,
            Capability.REQUEUE,
        }
    ),
    SLURM: frozenset({Capability.MOVE_RESTART, Capability.SUSPEND, Capability.USAGE}),
    # Kubernetes binds a pod once: no move, no pause, and no second start of the same pod
    KUBERNETES: frozenset(),
}


class Move(StrEnum):
    """How a backend brings a running job to another server."""

    LIVE = "live"  # the job keeps its work
    RESTART = "restart"  # the job loses its work
    NONE = "none"


def move_of(backend: str) -> Move:
    """Return how a backend moves a running job."""
    known = CAPABILITIES.get(backend, frozenset())
    if Capability.MOVE_LIVE in known:
        return Move.LIVE
    return Move.RESTART if Capability.MOVE_RESTART in known else Move.NONE


def backends_with(capability: Capability) -> frozenset[str]:
    """Return the names of the backends that have a capability."""
    return frozenset(name for name, known in CAPABILITIES.items() if capability in known)
