"""The code of the policies that queue jobs themselves, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from apps.scheduling.core.registry import accepted
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
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
    known = TESTBED_POLICIES[name].parameters
    values = {each.name: each.default for each in known}
    values |= accepted(name, known, parameters or {})
    return QueueingPolicy(name, partial(SCHEDULERS[name], **values))
