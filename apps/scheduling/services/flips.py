"""The smallest changes with which another server would have been chosen, each one verified."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.scheduling.core import registry
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.registry import Parameter
from apps.scheduling.core.types import Placed, Request
from apps.scheduling.services.counterfactuals import Situation, situation_of
from apps.scheduling.services.repeats import stored_decision

logger = logging.getLogger(__name__)

MAX_EXCLUDED: Final = 8  # servers that rank above
STEPS: Final = 12  # of a bisection between the value and one that flips the choice
GRID: Final = 9  # values of a parameter on each side


class Flip(NamedTuple):
    """A change, as the body of a counterfactual, and its effect in words."""

    change: dict[str, Any]
    effect: str


def flips(decision_id: UUID, server_id: int | None) -> dict[str, Any]:
    """Return changes with which a server would have been chosen; JSON.

    Parameters
    ----------
    server_id : None = the best one that was not chosen

    Raises
    ------
    NotRepeatableError : something that the decision followed from is not stored.
    """
    situation = situation_of(stored_decision(decision_id))
    ids = situation.batch.topology.server_id
    known = np.flatnonzero(ids == server_id) if server_id is not None else _runner_up(situation)
    if not len(known):
        return {"server": None, "is_chosen": False, "flips": []}
    wanted = int(known[0])
    name = situation.batch.topology.server_name[wanted]
    if wanted in _chosen(situation, situation.request):
        return {"server": name, "is_chosen": True, "flips": []}
    found = [*_by_exclusion(situation, wanted), *_by_weights(situation, wanted)]
    found += [*_by_agents(situation, wanted), *_by_policy(situation, wanted)]
    return {"server": name, "is_chosen": False, "flips": [flip._asdict() for flip in found]}


def _runner_up(situation: Situation) -> list[int]:
    if not isinstance(situation.outcome, Placed):
        return []
    chosen = _chosen(situation, situation.request)
    return [c.server for c in situation.outcome.candidates if c.server not in chosen][:1]


def _chosen(
    situation: Situation,
    request: Request,
    policy: str | None = None,
    parameters: dict[str, float] | None = None,
) -> frozenset[int]:
    """Return the servers that a policy would choose; none if it refuses the job or fails."""
    batch, seed = situation.batch, situation.decision.seed
    made = batch.policy
    try:
        if policy is not None:
            made = registry.make_plain(policy)  # for one decision, kernels need not be compiled
            request = situation.request_for(policy, request)
        elif parameters is not None:
            made = registry.make(batch.row.policy, {**batch.parameters, **parameters})
        outcome = situation.moment.decide(made, request, seed=seed)
    except PolicyFailedError:  # the other changes are still of use
        logger.exception("a change of decision %s is left out", situation.decision.pk)
        return frozenset()
    if not isinstance(outcome, Placed):
        return frozenset()
    return frozenset(batch.topology.unit_server[outcome.units].tolist())


def _by_exclusion(situation: Situation, wanted: int) -> Iterator[Flip]:
    """Leave out the servers that are chosen instead, until the wanted one is."""
    names, out = situation.batch.topology.server_name, frozenset[int]()
    while len(out) < MAX_EXCLUDED:
        request = replace(situation.request, excluded=situation.request.excluded | out)
        chosen = _chosen(situation, request)
        if wanted in chosen:
            left_out = sorted(names[server] for server in out)
            which = left_out[0] if len(out) == 1 else f"these {len(out)} servers"
            yield Flip({"without_servers": left_out}, f"if {which} had no free unit")
            return
        if not chosen:
            return
        out |= chosen


def _by_weights(situation: Situation, wanted: int) -> Iterator[Flip]:
    """Change one parameter of the policy as little as possible."""
    entry = registry.POLICIES.get(situation.batch.row.policy)
    for parameter in registry.chosen_parameters(entry.parameters if entry else ()):
        now = situation.batch.parameters.get(parameter.name, parameter.default)

        def wins(value: float, name: str = parameter.name) -> bool:
            return wanted in _chosen(situation, situation.request, parameters={name: value})

        value = _nearest(parameter, now, wins)
        if value is not None:
            effect = f"if {parameter.name} were {value:.4g} instead of {now:.4g}"
            yield Flip({"parameters": {parameter.name: value}}, effect)


def _by_agents(situation: Situation, wanted: int) -> Iterator[Flip]:
    """Let the agent decide alone, if it preferred a share of the servers."""
    stored = registry.agent_parameters(situation.batch.row.policy, situation.batch.parameters)
    agents = stored.get("agents", 1)
    if agents > 1 and wanted in _chosen(situation, situation.request, parameters={"agents": 1}):
        effect = f"if one agent had decided alone instead of {agents:.0f} at the same time"
        yield Flip({"parameters": {"agents": 1}}, effect)


def _nearest(parameter: Parameter, now: float, wins: Callable[[float], bool]) -> float | None:
    """Return a value close to the present one that wins; None if no value of the grid does."""
    ends = (parameter.low, min(parameter.high, max(4.0 * now, parameter.low + 1.0)))
    values = {float(v) for end in ends for v in np.linspace(now, end, GRID + 1)[1:]}
    if parameter.is_whole:
        values = {float(round(value)) for value in values} - {now}
    for value in sorted(values, key=lambda each: abs(each - now)):
        if wins(value):
            return value if parameter.is_whole else _bisected(now, value, wins)
    return None


def _bisected(loses: float, winner: float, wins: Callable[[float], bool]) -> float:
    """Return a winning value as close to a losing one as bisection finds."""
    for _ in range(STEPS):
        middle = 0.5 * (loses + winner)
        loses, winner = (loses, middle) if wins(middle) else (middle, winner)
    return winner


def _by_policy(situation: Situation, wanted: int) -> Iterator[Flip]:
    for name in sorted(registry.POLICIES):
        if name == situation.batch.row.policy:
            continue
        if wanted in _chosen(situation, situation.request, name):
            yield Flip({"policy": name}, f"if {name} had decided")
