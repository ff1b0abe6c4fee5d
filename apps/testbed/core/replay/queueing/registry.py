"""Policies that only replays run, by name: they queue jobs themselves.

Agents of an installation decide on a snapshot by the policies of `scheduling.core.registry`.
`schedulers.py` has the code of these, which only processes that run replays import.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.scheduling.core.registry import Parameter, parameters_schema, problem_of
from apps.testbed.core.replay.model import ReplayOptions

WEIGHTED: Final = 4  # queues with a weight of their own
UNUSED: Final = ("admission", "patience_s", "agents", "sync_s", "decision_s", "weights")
_DEFAULTS: Final = ReplayOptions()


@dataclass(frozen=True, slots=True)
class QueueingEntry:
    """A policy of the testbed.

    Attributes
    ----------
    source, formula, parameters, summary : as in `scheduling.core.registry.Entry`
    """

    source: str
    formula: str
    parameters: tuple[Parameter, ...] = ()
    summary: str = ""

    def schema(self) -> dict[str, Any]:
        """JSON schema of the parameters."""
        return parameters_schema(self.parameters)


_HEARTBEAT: Final = Parameter(
    "heartbeat_s", 1.0, 0.01, 600.0, "time between two heartbeats of a node, h"
)
_WEIGHTS: Final = tuple(
    Parameter(f"weight_{queue}", 1.0, 0.001, 1000.0, f"weight of queue {queue}")
    for queue in range(WEIGHTED)
)


def _masters(default: float) -> Parameter:
    about = "active applications over the units of the share of their queue, a"
    return Parameter("am_share", default, 0.001, 1.0, about)


TESTBED_POLICIES: Final[dict[str, QueueingEntry]] = {
    "sparrow": QueueingEntry(
        "Sparrow (SOSP 2013) §3.2-3.4, Tarcil §6.2 (T12)",
        "the first m free cores of the servers that got one of its ceil(d m) probes",
        (Parameter("probes", 2.0, 1.0, 32.0, "probes per unit, d"),),
    ),
    "yarn_fifo": QueueingEntry(
        "Khaneja 2015, chapter 5 (K7); YARN 2.6",
        "first by submission; a heartbeat fills the node",
        (_HEARTBEAT,),
    ),
    "yarn_capacity": QueueingEntry(
        "Khaneja 2015, chapter 5 (K7); YARN 2.6",
        "least used / capacity of the queue, then by submission; a unit at a heartbeat",
        (
            _HEARTBEAT,
            _masters(0.1),
            Parameter("max_share", 1.0, 0.01, 1.0, "share of all units that a queue may use"),
            *_WEIGHTS,
        ),
    ),
    "yarn_fair": QueueingEntry(
        "Khaneja 2015, chapter 5 (K7); YARN 2.6",
        "least used / weight of the queue, then fewest units; a unit at a heartbeat",
        (_HEARTBEAT, _masters(0.5), *_WEIGHTS),
    ),
}


def queueing_parameter_problem(policy: str, name: str, value: object) -> str | None:
    """Say what is wrong with a parameter of a policy of the testbed; None if it is accepted."""
    return problem_of(policy, TESTBED_POLICIES[policy].parameters, name, value)


def unused_options(options: Mapping[str, Any]) -> list[str]:
    """Return the options of a replay that a policy of the testbed would not use.

    They are those of admission and patience, of several agents and of migrations, with other
    values than the defaults.
    """
    return [
        name for name in UNUSED if name in options and options[name] != getattr(_DEFAULTS, name)
    ]
