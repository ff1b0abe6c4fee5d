"""The code of the policies that queue jobs themselves, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apps.scheduling.core.registry import PolicyParameterError
from apps.testbed.core.replay.queueing.registry import (
    TESTBED_POLICIES,
    queueing_parameter_problem,
)
from apps.testbed.core.replay.queueing.sparrow import Sparrow
from apps.testbed.core.replay.queueing.types import QueueingPolicy
from apps.testbed.core.replay.queueing.yarn import CAPACITY, FAIR, FIFO, Yarn

SCHEDULERS: Final[dict[str, Callable[..., Any]]] = {
    "sparrow": Sparrow,
    "yarn_fifo": partial(Yarn, rules=FIFO),
    "yarn_capacity": partial(Yarn, rules=CAPACITY),
    "yarn_fair": partial(Yarn, rules=FAIR),
}


def make_queueing(name: str, parameters: Mapping[str, float] | None = None) -> QueueingPolicy:
    """Return a policy of the testbed.

    Raises
    ------
    KeyError : no policy of the testbed has this name.
    PolicyParameterError : the message says what is accepted.
    """
    values = {each.name: each.default for each in TESTBED_POLICIES[name].parameters}
    for key, value in (parameters or {}).items():
        if problem := queueing_parameter_problem(name, key, value):
            raise PolicyParameterError(problem)
        values[key] = value
    return QueueingPolicy(name, partial(SCHEDULERS[name], **values))
