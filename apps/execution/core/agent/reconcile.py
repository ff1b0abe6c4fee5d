"""What an agent does about its orders: the live launches of its server against its own tasks.

Pure; the agent runs this module too, so it imports the standard library only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.execution.core.port import CommandOrder


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What an agent knows of one task.

    Attributes
    ----------
    known_s : second of the monotonic clock at which its order arrived
    has_ended : whether its command has ended
    suspend : whether its supervisor was told to suspend it
    """

    known_s: float
    has_ended: bool
    suspend: bool = False


@dataclass(frozen=True, slots=True)
class Actions:
    """What to do.

    Attributes
    ----------
    start : orders to start
    cancel : launches that are to be reported as cancelled, as they were never started
    lose : launches that are to be reported as lost: the control plane believes that they run here
    stop : tasks to stop: cancelled ones, and those that the control plane has given up
    suspend, resume : tasks whose processes must be suspended, and continued
    """

    start: list[CommandOrder] = field(default_factory=list)
    cancel: list[int] = field(default_factory=list)
    lose: list[int] = field(default_factory=list)
    stop: list[int] = field(default_factory=list)
    suspend: list[int] = field(default_factory=list)
    resume: list[int] = field(default_factory=list)


def reconcile(
    orders: Iterable[CommandOrder], tasks: Mapping[int, TaskFacts], *, asked_s: float
) -> Actions:
    """Compare the orders of a server with the tasks of its agent.

    Parameters
    ----------
    asked_s : second of the monotonic clock at which the orders were requested. Orders that
        arrived later, in another answer, may be missing in this one.
    """
    actions, live = Actions(), set()
    for order in orders:
        live.add(order.launch)
        task = tasks.get(order.launch)
        if task is None and order.stop:
            actions.cancel.append(order.launch)
        elif task is None and order.is_running:
            actions.lose.append(order.launch)
        elif task is None:
            actions.start.append(order)
        elif order.stop and not task.has_ended:
            actions.stop.append(order.launch)
        elif not task.has_ended and order.suspend is not task.suspend:
            (actions.suspend if order.suspend else actions.resume).append(order.launch)
    actions.stop.extend(
        launch
        for launch, task in tasks.items()
        if launch not in live and not task.has_ended and task.known_s < asked_s
    )
    return actions
