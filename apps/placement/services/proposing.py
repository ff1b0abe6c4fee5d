"""What plans are made of: the cluster is read, better places are sought, nothing is written."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np

from apps.execution.core.migration import move_s
from apps.inventory.core.snapshot import Ints
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.placement.core.bundles import Bundle, Step
from apps.placement.core.bundles import Purpose as Aim
from apps.placement.core.carrying import bundles_without_room
from apps.placement.core.live import Cluster, as_json, value
from apps.placement.core.live_bound import bound, gap
from apps.placement.core.prediction import prediction
from apps.placement.core.replacing import Outcome, improve
from apps.placement.models import Activation, Cause, Loop, Purpose
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.cluster import Choice, read_cluster
from apps.placement.selectors.objectives import weighed
from apps.placement.selectors.preferences import racks_of
from apps.placement.services.plans import NewMove, NewPlan

TRIES: Final = 2  # searches, should the first lead containers back to where they came from


@dataclass(frozen=True, slots=True)
class NothingGained:
    """No plan, and why."""

    reason: str


def propose(
    active: Activation,
    *,
    cause: Cause,
    settings: Loop,
    by: UUID | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> NewPlan | NothingGained:
    """Look for moves that lower F by enough; costs up to ``settings.solve_s`` twice.

    Parameters
    ----------
    active : by whose weights, and in whose racks

    Raises
    ------
    ConflictError : no rack is left that the weights are limited to.
    """
    weights = weighed(active.weights)
    cluster = read(settings, racks=racks_of(active))
    returns = cause is not Cause.LOOP
    outcome = _search(cluster, weights, settings, should_stop, returns=returns)
    outcome = _with_room(cluster, weights, outcome)
    gain = outcome.before - outcome.after
    if not outcome.bundles:
        return NothingGained(_nothing(cluster, settings))
    if gain < settings.least_gain:
        return NothingGained(
            f"The {outcome.moves:,} moves found would lower F by {gain:.2g}, which is less than "
            f"the {settings.least_gain:.2g} a plan must gain."
        )
    return NewPlan(
        cause=cause,
        weights=weights,
        activation=active,
        moves=new_moves(cluster, outcome.bundles),
        predicted=predicted(cluster, outcome, weights),
        gap=outcome.gap,
        gain=gain,
        seconds=outcome.seconds,
        snapshot=cluster.sequence,
        cluster_s=cluster.at_s,
        created_by=by,
    )


def read(settings: Loop, *, racks: Collection[str] = ()) -> Cluster:
    """Read the cluster with what may not be moved marked: young, ending, moved often enough."""
    since_s = cluster_now() - selectors.HOUR_S
    often = selectors.rounds(None, since_s=since_s)
    pinned = frozenset(job for job, times in often.items() if times >= settings.moves_per_job)
    return read_cluster(choice=Choice(frozenset(racks), settings.youngest_s, pinned))


def _nothing(cluster: Cluster, settings: Loop) -> str:
    movable = int(cluster.is_movable.sum())
    if not cluster.home.size:
        return "Nothing runs that could be moved."
    if not movable:
        return (
            f"None of the {cluster.home.size:,} containers may be moved now: their jobs are "
            "young, end soon, ask to stay, or were moved often enough."
        )
    return f"No move of the {movable:,} containers that may be moved pays for itself."


def _search(
    cluster: Cluster,
    weights: Mapping[str, float],
    settings: Loop,
    should_stop: Callable[[], bool],
    *,
    returns: bool,
) -> Outcome:
    """Search; where containers must not return, again without those that would."""
    for _ in range(TRIES):
        outcome = improve(
            cluster,
            weights,
            clock=time.perf_counter,
            limit_s=settings.solve_s,
            most_moves=settings.moves_per_plan,
            migration=settings.migration,
            should_stop=should_stop,
        )
        back = [] if returns else _returning(cluster, outcome.bundles)
        if not back:
            return outcome
        movable = cluster.is_movable.copy()
        movable[back] = False
        cluster = replace(cluster, is_movable=movable)
    return replace(outcome, bundles=(), home=cluster.home, after=outcome.before)


def _with_room(cluster: Cluster, weights: Mapping[str, float], outcome: Outcome) -> Outcome:
    """Leave out bundles that their targets will refuse.

    The search counts on what containers hold; where no size was asked for, a server gives equal
    shares of its own, which may be more.
    """
    transfers = [
        selectors.Transfer(
            ordinal=0,
            bundle=number,
            job_id=UUID(cluster.job_id[cluster.job[step.container]]),
            allocation_id=int(cluster.allocation_id[step.container]),
            from_server_id=int(cluster.server_id[step.source]),
            to_server_id=int(cluster.server_id[step.to]),
        )
        for number, bundle in enumerate(outcome.bundles)
        for step in bundle.steps
    ]
    numbered = [replace(one, ordinal=place) for place, one in enumerate(transfers)]
    rooms = selectors.rooms(s for t in numbered for s in (t.from_server_id, t.to_server_id))
    out = bundles_without_room(selectors.steps(numbered), rooms)
    if not out:
        return outcome
    kept = tuple(b for number, b in enumerate(outcome.bundles) if number not in out)
    home = cluster.home.copy()
    for bundle in kept:
        for step in bundle.steps:
            home[step.container] = step.to
    return replace(outcome, bundles=kept, home=home, after=value(cluster, home, weights))


def _returning(cluster: Cluster, bundles: Iterable[Bundle]) -> list[int]:
    """Containers that would go back to a server they left within the hour."""
    steps = [step for bundle in bundles for step in bundle.steps]
    jobs = {UUID(cluster.job_id[cluster.job[step.container]]) for step in steps}
    left = selectors.left_lately(jobs, since_s=cluster.at_s - selectors.HOUR_S)
    return [
        step.container
        for step in steps
        if int(cluster.server_id[step.to])
        in left.get(int(cluster.allocation_id[step.container]), ())
    ]


def new_moves(cluster: Cluster, bundles: Sequence[Bundle]) -> list[NewMove]:
    """Return the moves of bundles in order, numbered."""
    lasts = iter(_move_seconds(cluster, [step for bundle in bundles for step in bundle.steps]))
    moves: list[NewMove] = []
    for number, bundle in enumerate(bundles):
        names = cluster.server_name if bundle.purpose is Aim.EMPTY else cluster.job_name
        moves += [
            NewMove(
                ordinal=len(moves) + place,
                bundle=number,
                purpose=Purpose(bundle.purpose.value),
                about=names[bundle.about],
                job_id=UUID(cluster.job_id[cluster.job[step.container]]),
                allocation_id=int(cluster.allocation_id[step.container]),
                from_server_id=int(cluster.server_id[step.source]),
                to_server_id=int(cluster.server_id[step.to]),
                units=int(cluster.size[step.container]),
                gain=bundle.gain,
                predicted_s=next(lasts),
            )
            for place, step in enumerate(bundle.steps)
        ]
    return moves


def _move_seconds(cluster: Cluster, steps: Sequence[Step]) -> list[float]:
    """Cluster seconds for which each container stands still while it moves."""
    network = _network(cluster, (server for x in steps for server in (x.source, x.to)))
    memory = cluster.demand[:, 0]
    return [move_s(float(memory[x.container]), network[x.source], network[x.to]) for x in steps]


def _network(cluster: Cluster, servers: Iterable[int]) -> dict[int, float]:
    """Bits/s of servers, by index."""
    index = {int(cluster.server_id[server]): server for server in set(servers)}
    rows = Server.objects.filter(pk__in=index).values_list("pk", "network_bps")
    return {index[pk]: float(bps) for pk, bps in rows}


# ---- of plans there are ----


class MovedOnError(LookupError):
    """No container of a plan is where it was."""


class Wanted(Protocol):
    """A move, whether it is a row or not yet one."""

    @property
    def allocation_id(self) -> int:
        """What moves."""

    @property
    def to_server_id(self) -> int:
        """Where to."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What moves would do to the cluster as it is now.

    Attributes
    ----------
    predicted, gap, snapshot, cluster_s : as of `models.Plan`
    gain : of F
    """

    predicted: dict[str, Any]
    gap: float
    gain: float
    snapshot: int
    cluster_s: float


def predict_moves(weights: Mapping[str, float], moves: Sequence[Wanted]) -> Prediction:
    """Predict what some moves would do to the cluster as it is now.

    Raises
    ------
    MovedOnError : all of their containers are gone; some are left out of the prediction.
    """
    cluster = read_cluster()
    at = {int(pk): i for i, pk in enumerate(cluster.allocation_id)}
    server = {int(pk): i for i, pk in enumerate(cluster.server_id)}
    there = [move for move in moves if move.allocation_id in at]
    if moves and not there:
        raise MovedOnError("all of its containers ended or moved")
    home, steps = cluster.home.copy(), list[Step]()
    for move in there:
        container, to = at[move.allocation_id], server[move.to_server_id]
        steps.append(Step(container, int(home[container]), to))
        home[container] = to
    outcome = _outcome(cluster, home, steps, dict(weights))
    return Prediction(
        predicted=predicted(cluster, outcome, weights),
        gap=outcome.gap,
        gain=outcome.before - outcome.after,
        snapshot=cluster.sequence,
        cluster_s=cluster.at_s,
    )


def _outcome(
    cluster: Cluster, home: Ints, steps: Sequence[Step], weights: dict[str, float]
) -> Outcome:
    """Return steps as what a search would have found."""
    before, after = value(cluster, cluster.home, weights), value(cluster, home, weights)
    least = bound(cluster, weights)
    return Outcome(
        bundles=(Bundle(Aim.IMPROVE, 0, tuple(steps), before - after),),
        home=home,
        before=before,
        after=after,
        bound=least,
        gap=gap(after, least, weights),
        seconds=0.0,
        is_settled=False,
    )


def compare(
    weights: Mapping[str, float], back: Mapping[int, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure the cluster as it is, and as it would be with containers put back.

    Parameters
    ----------
    back : allocation -> server it is to be put back on; what is gone is passed over

    Returns
    -------
    Measures as it is, and with them back.
    """
    cluster = read_cluster()
    server = {int(pk): i for i, pk in enumerate(cluster.server_id)}
    home = cluster.home.copy()
    for place in np.flatnonzero(np.isin(cluster.allocation_id, list(back))):
        home[place] = server[back[int(cluster.allocation_id[place])]]
    mine = dict(weights)
    return as_json(cluster, cluster.home, mine), as_json(cluster, home, mine)


def predicted(cluster: Cluster, outcome: Outcome, weights: Mapping[str, float]) -> dict[str, Any]:
    """JSON of what a plan is predicted to do."""
    steps = [step for bundle in outcome.bundles for step in bundle.steps]
    return prediction(
        cluster, outcome.home, weights, seconds=math.fsum(_move_seconds(cluster, steps))
    )
