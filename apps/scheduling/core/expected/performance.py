"""Expected performance of a job on each unit, and of the jobs that it would press on.

The score of a unit is a logarithm of performance. Performance is a product of factors, so the
first two terms have weight 1; the others have the weights of `Weights`:

    ln v + sum of g(p; t)                   speed of the platform, loss by interference
    + neighbours · sum of e · c / (M - 1)   what the jobs on the server lose by this job
    + kept · logistic(room / width)         chance that the job keeps 95 % of its speed alone
    - spread · (1 - r)² · b / M             future neighbours

v is the speed of the platform relative to the highest-end one, p the pressure (Tarcil Eq. 3), t
and c what the job tolerates and causes, g and e the loss and the exposure of `loss`; the sums are
over the sources. b of the server's M units are busy, and a share r of all units. In a full cluster
every free unit gets a neighbour wherever the job goes: hence 1 - r, squared as the choice among
the units that the term leaves free shrinks as well.

Units whose score is within `LOSS` of the best count as equally good. The choice among them starts
at a random block of servers.

A job of one unit that may wait (`Request.is_patient`) is refused if the unit that it would take is
contended and adds less than `Weights.gain` to the work of the cluster (`gains_enough`). In a
crowded cluster such a placement costs the neighbours about what the job gains, and all later jobs
find less room.

Agents that decide at the same time see the same cluster and would choose the same units. With k
agents each prefers the servers of its own share, a k-th of all (`Share`): units of other shares
lose `ELSEWHERE` · ln k. So an agent leaves its share only for a unit that is better by more than
that, and no choice is worse than the best by more than that and `LOSS`. If scores have an
exponential tail, the best of all exceeds the best of a k-th by a constant times ln k on average:
hence the logarithm. One agent prefers nothing.

Ours: Tarcil §3.2 lets utility depend on the platform, but its Eq. 5 does not; no paper weighs the
loss of the neighbours. The weights were chosen on a cluster and seeds that no published figure
uses.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Shorts, Topology
from apps.scheduling.core import chance, loss
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import Request, stored_candidates

LOSS: Final = 0.002  # log performance: units within it of the best are equally good
ELSEWHERE: Final = 0.2  # log performance that a unit of another agent's share loses, by ln agents
BLOCK: Final = 64  # servers; of equally good units, those of a random block come first
MAX_EXPONENT: Final = 700.0  # of a double
STEPS: Final = 1 << 30  # of a score of 1, in the integer keys
TIED: Final = round(LOSS * STEPS)
MIN_PERFORMANCE: Final = 1e-300  # performance, whose logarithm is finite
UNCONTENDED: Final = 0.95  # gain of a unit, at which no job waits for a better one


class Weights(NamedTuple):
    """Weights of the terms.

    Attributes
    ----------
    width : uncertainty of the predicted log performance
    gain : min gain of a unit for a job that may wait
    """

    neighbours: float = 0.2
    kept: float = 0.3
    width: float = 0.02
    spread: float = 2.5
    gain: float = 0.2


DEFAULT: Final = Weights()


class Share(NamedTuple):
    """The servers that one of ``agents`` prefers: number ``share``, counted modulo ``agents``."""

    agents: int = 1
    share: int = 0

    def elsewhere(self, servers: int) -> Floats:
        """(S,) what a unit of each server loses: 0 in the own share, else `ELSEWHERE` · ln agents.

        The share of a server is a random number, so that every share has a part of each platform
        and rack.
        """
        drawn = chance.words(_SHARES, np.arange(servers)) >> np.uint64(32)
        owner = (drawn * np.uint64(self.agents)) >> np.uint64(32)
        return np.where(owner == self.share % self.agents, 0.0, self.loss)

    @property
    def loss(self) -> float:
        """Log performance by which a unit of another share must beat the best of the own."""
        return ELSEWHERE * math.log(self.agents)


ALONE: Final = Share()
_SHARES: Final = 0x2545F4914F6CDD1D  # seed of the shares, the same for all agents


def score(
    state: BatchState,
    request: Request,
    units: Ints,
    seed: int,
    *,
    weights: Weights = DEFAULT,
    share: Share = ALONE,
) -> Scores:
    """Score units by expected performance. O(n·N).

    ``units`` must be ascending: for a job of one unit, the j-th free unit of a server counts the
    j - 1 before it as busy. The units of one job do not press on each other, so those of a larger
    job count none of them: it fills its best server before the next one.
    """
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    pressures = encoding.pressure(state.server_caused[servers], topology.server_units[servers])
    is_one = request.units == 1
    nth = np.arange(units.size) - np.searchsorted(servers, servers) if is_one else 0
    total = _job(request, pressures, topology.server_platform[servers], weights)
    total += weights.neighbours * _neighbours(state, request, servers)
    total -= weights.spread * _crowd(state, servers, nth)
    zero = np.zeros(units.size, dtype=np.int64)
    coins = _coins(topology, units, seed, is_one=is_one)
    preferred = total - share.elsewhere(topology.server_id.size)[servers]
    steps = np.round(preferred * STEPS).astype(np.int64)
    if steps.size:
        steps = np.minimum(steps, steps.max() - TIED)
    return Scores(
        units=units,
        servers=servers,
        key=np.stack((steps, _turns(topology, servers, seed), zero, coins), axis=1),
        quality=np.full(units.size, np.nan),
        target=float("nan"),
        closeness=total,
        headroom=request.tolerated - pressures,
        expectations=expectations(state, request, servers),
        listed=stored_candidates(request.units),
    )


def _coins(topology: Topology, units: Ints, seed: int, *, is_one: bool) -> Ints:
    """(n,) random numbers of units, or of their servers for a job of several units."""
    if is_one:
        return chance.coins(seed, units)
    servers = topology.unit_server[units].astype(np.int64)
    return chance.server_coins(seed, servers, units - topology.server_first_unit[servers])


def _turns(topology: Topology, servers: Shorts, seed: int) -> Ints:
    """(n,) order of the blocks of servers, from a random one on; higher = earlier."""
    blocks = -(-topology.server_id.size // BLOCK)
    start = chance.below(chance.word(seed, 0), blocks)
    turns: Ints = -((servers.astype(np.int64) // BLOCK - start) % blocks)
    return turns


def expectations(state: BatchState, request: Request, servers: Shorts) -> Floats:
    """(n, 4) columns of `Expectation` for one unit on each of these servers. O(n·N)."""
    topology = state.snapshot.topology
    size = topology.server_units[servers]
    pressures = encoding.pressure(state.server_caused[servers], size)
    speed = np.ones(servers.size)
    if request.platform_speed is not None:
        speed = request.platform_speed[topology.server_platform[servers]]
    own = np.exp(_lost(request, pressures))
    neighbours = np.exp(_neighbours(state, request, servers))
    return np.stack((speed, own, neighbours, 1.0 - state.free_count[servers] / size), axis=1)


def attainable_speed(facts: TopologyFacts, request: Request) -> float:
    """Return the highest speed that a job can get on the servers that it may use, at most 1.

    Relative to the highest-end platform. Closed and busy servers count too. O(S).
    """
    if request.platform_speed is None:
        return 1.0
    usable = facts.allowed(request.platforms)[facts.server_platform]
    usable = usable & facts.labelled(request.labels) & ~facts.barred(request)
    fastest = request.platform_speed[facts.server_platform[usable]].max(initial=0.0)
    return min(1.0, float(fastest)) or 1.0


def gains_enough(
    expectation: Floats, usual: Callable[[], float], weights: Weights = DEFAULT
) -> bool:
    """Whether a job that may wait takes a unit.

    It does if the unit is not contended: the performance of the job there, less the weighted log
    performance that the other jobs of the server lose, is at least `UNCONTENDED`. Else the speed
    of the job there, relative to its attainable speed, less the same loss, must be at least
    ``weights.gain``.

    Parameters
    ----------
    expectation : (4,) columns of `Expectation`
    usual : returns `attainable_speed`; not called for a unit that is not contended
    """
    speed, own, neighbours = (float(value) for value in expectation[:3])
    lost = weights.neighbours * math.log(max(neighbours, MIN_PERFORMANCE))
    return own + lost >= UNCONTENDED or speed * own / usual() + lost >= weights.gain


def kept(lost: Any, weights: Weights = DEFAULT) -> Any:
    """Return the term of the chance to keep 95 % of the speed, from the log performance."""
    room = lost - loss.LOG_KEPT - weights.width
    return weights.kept / (1.0 + np.exp(np.minimum(-room / weights.width, MAX_EXPONENT)))


def _lost(request: Request, pressures: Floats) -> Floats:
    """(n,) log performance of the job by interference."""
    lost: Floats = loss.log_performance(np.minimum(pressures, 100.0), request.tolerated).sum(
        axis=1
    )
    return lost


def _job(request: Request, pressures: Floats, platform: Shorts, weights: Weights) -> Floats:
    """(n,) speed, loss and chance of the job itself."""
    lost = _lost(request, pressures)
    total: Floats = lost + kept(lost, weights)
    if request.platform_speed is not None:
        total += np.log(request.platform_speed)[platform]
    return total


def _neighbours(state: BatchState, request: Request, servers: Shorts) -> Floats:
    """(n,) log performance that the jobs of the server lose by one unit of the job."""
    others = np.maximum(state.snapshot.topology.server_units[servers] - 1, 1)
    lost: Floats = state.server_exposure[servers].astype(np.float64) @ request.caused / others
    return lost


def _crowd(state: BatchState, servers: Shorts, nth: Ints | int) -> Floats:
    """(n,) share of the server that is busy, times the share of all units that is free."""
    size = state.snapshot.topology.server_units[servers]
    idle = 1.0 - state.busy / state.snapshot.topology.unit_id.size
    busy = (size - state.free_count[servers] + nth) / size
    crowd: Floats = idle * idle * busy
    return crowd
