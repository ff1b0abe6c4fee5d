"""Tarcil with its filter, sample and score in machine code."""

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Snapshot, Topology
from apps.scheduling.core import policies, scorers
from apps.scheduling.core.board import Board, Facts, fixed
from apps.scheduling.core.capacity import wanted
from apps.scheduling.core.encoding import MARGIN, Form
from apps.scheduling.core.filters import FILTERS, Eligibility
from apps.scheduling.core.localcopy import LocalCopy
from apps.scheduling.core.scorers import Scores
from apps.scheduling.core.types import Request, Within

NOWHERE = fixed(np.empty(0, dtype=np.int64), np.int64)


class FusedTarcil(policies.Assembled):
    """The policy of ``policies.tarcil``, decision by decision the same, fifteen times faster.

    Jobs that want their units near each other go the assembled way.
    """

    def __init__(self, name: str = "tarcil", *, form: Form = Form.GUARDED) -> None:
        slow = policies.tarcil(name, form=form)
        super().__init__(name, slow.version, sample=slow.sample, near=slow.near, score=slow.score)
        self._form = int(form)

    def _board(self, snapshot: Snapshot, facts: Facts, *, writable: bool) -> Board:
        return Board.of(snapshot, facts, writable=writable, counter=_counted)

    def _filter(self, board: Board, request: Request) -> Eligibility:
        if request.locality == Within.RACK:
            return super()._filter(board, request)
        # numba is for processes that decide; the web process only reads the registry
        from apps.scheduling.core import kernels  # noqa: PLC0415

        facts = board.facts
        mask, room, counts = kernels.sift(
            board.free_count,
            board.server_open,
            facts.labelled(request.labels),
            _indices(request.excluded, facts.everywhere.size),
            facts.allowed(request.platforms),
            facts.server_platform,
            facts.share,
            wanted(request),
            board.server_free,
            request.units,
            request.locality == Within.SERVER,
        )
        *by_filter, units = counts.tolist()
        by_filter[0] = board.busy
        dropped = {name: n for name, n in zip(FILTERS, by_filter, strict=True) if n}
        return Eligibility(mask, room, units, dropped)

    def _look(self, board: Board, request: Request, eligibility: Eligibility, seed: int) -> Scores:
        if request.locality:
            return super()._look(board, request, eligibility, seed)
        from apps.scheduling.core import kernels  # noqa: PLC0415

        facts = board.facts
        units, servers, key, quality, target, close, headroom = kernels.look(
            board.unit_free,
            eligibility.servers,
            eligibility.units,
            facts.unit_server,
            facts.server_units,
            facts.server_platform,
            board.server_caused,
            _vector(request.caused),
            _vector(request.tolerated),
            scorers.speed_steps(request, len(facts.topology.platform_name)),
            policies.sample_count(request, eligibility),
            seed,
            self._form,
            MARGIN,  # an argument: a constant would stay in the compiled cache
        )
        return Scores(units, servers, key, quality, target, close, headroom)

    def _ranks(self, board: Board, request: Request, seen: policies.Seen, seed: int) -> Floats:
        from apps.scheduling.core import kernels  # noqa: PLC0415

        if seen.eligibility.units == 1:
            return np.ones(1)
        facts = board.facts
        below = kernels.outranked(
            board.unit_free,
            fixed(seen.eligibility.servers, np.bool_),
            facts.first_unit,
            facts.server_units,
            facts.server_platform,
            board.server_caused,
            _vector(request.caused),
            _vector(request.tolerated),
            scorers.speed_steps(request, len(facts.topology.platform_name)),
            seed,
            self._form,
            MARGIN,  # an argument: a constant would stay in the compiled cache
            np.ascontiguousarray(seen.scores.key[seen.picked]),
        )
        return below / (seen.eligibility.units - 1)


def warm() -> None:
    """Compile the kernels (or load them from their cache) before the first job.

    For a process that decides, at its start: cold, numba takes some seconds.
    """
    one = np.zeros(1, dtype=np.int32)
    topology = Topology(
        unit_id=np.arange(2),
        unit_server=np.zeros(2, dtype=np.int32),
        unit_core=np.arange(2, dtype=np.int32),
        server_id=np.zeros(1, dtype=np.int64),
        server_name=("warm",),
        server_first_unit=one,
        server_units=one + np.int32(2),
        server_platform=one,
        server_rack=one,
        server_capacity=np.ones((1, 3)),
        server_labels=(frozenset(),),
        platform_name=("warm",),
        rack_name=("warm",),
    )
    scores = np.zeros(N_SOURCES)
    request = Request("warm", 1, scores, scores, measure_rank=True)
    copy = LocalCopy(topology)
    FusedTarcil().place(copy.snapshot(), [request], np.random.default_rng(0))


def _counted(facts: Facts, unit_free: Bools) -> Shorts:
    from apps.scheduling.core import kernels  # noqa: PLC0415

    return kernels.count_free(fixed(unit_free, np.bool_), facts.first_unit, facts.server_units)


def _indices(servers: frozenset[int], size: int) -> Ints:
    if not servers:
        return NOWHERE
    inside = [server for server in sorted(servers) if 0 <= server < size]
    return fixed(np.array(inside, dtype=np.int64), np.int64)


def _vector(scores: Floats) -> Floats:
    return fixed(scores, np.float64)
