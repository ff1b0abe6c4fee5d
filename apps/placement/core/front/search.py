"""Search for a front: class counts, the solver at several weights, then NSGA-II.

If the front of class counts applies, a placement is packed for each of its points. The search ends
once every point has a placement: the front is proven. Otherwise NSGA-II starts from these
placements, those of simple rules and those of the solver at several weights. Source: ClavisMO
§3.1, C3; the first steps are ours.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front import nsga2
from apps.placement.core.front.archive import (
    MAX_SHOWN,
    MAX_STORED,
    Archive,
    ParetoFront,
    losses,
    representatives,
)
from apps.placement.core.front.counts import CountsFront, counts_front, pack_point
from apps.placement.core.front.nsga2 import FrontProgress
from apps.placement.core.front.starts import rule_placements, weights_to_try
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales
from apps.placement.core.solver import registry
from apps.placement.core.solver.run import SolverRun

_PACKING_SHARE: Final = 0.4  # of the budget
_SOLVER_SHARE: Final = 0.25
_WEIGHTS: Final = 10  # weight vectors that are solved
_REPORT_S: Final = 0.1  # interval of progress reports before the first generation

VersionCallback = Callable[[FrontProgress, Callable[[], ParetoFront]], None]


def find_front(  # noqa: PLR0913 - all but three have defaults
    instance: Instance,
    *,
    clock: Callable[[], float],
    budget_s: float,
    seed: int = 0,
    limit: int = MAX_SHOWN,
    starts: Sequence[Ints] = (),
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[FrontProgress], None] = lambda _: None,
    on_version: VersionCallback = lambda _, __: None,
) -> ParetoFront:
    """Search until the budget is spent, the search is stopped, or the front is proven.

    Parameters
    ----------
    clock : returns seconds
    limit : maximum number of points returned
    starts : (c,) additional starting placements, e.g. those of an interrupted search
    on_progress : called a few times per second
    on_version : called as often, with a function that returns the present front; calling it takes
        a few milliseconds

    Raises
    ------
    ValueError : budget_s is not positive, or limit is below 1.
    """
    if not budget_s > 0.0:
        raise ValueError(f"budget_s must be above 0, not {budget_s}")
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    preparation = _Preparation(
        instance,
        clock,
        budget_s,
        should_stop=should_stop,
        on_progress=on_progress,
        on_version=on_version,
        limit=limit,
    )
    counts = counts_front(instance)
    preparation.add([*rule_placements(instance), *starts])
    if counts is not None:
        preparation.pack(counts)
    is_exact = counts is not None and preparation.archive().holds(_targets(instance, counts))
    if not is_exact:
        preparation.solve(seed)
    search = nsga2.FrontSearch(
        instance, preparation.starts, clock=clock, seed=seed, began=preparation.began
    )
    if not is_exact:
        search.run(
            budget_s, should_stop=should_stop, on_progress=preparation.progress_callback(search)
        )
        is_exact = counts is not None and search.archive.holds(_targets(instance, counts))
    on_progress(search.progress())
    return search.front(limit, is_exact=is_exact)


def prepare(instance: Instance) -> None:
    """Load the kernels that a search needs, compiling them the first time."""
    small = generate_instance(InstanceSpec(4), 0)
    counts = counts_front(small)
    if counts is not None:
        _Preparation(small, lambda: 0.0, 1.0).pack(counts)
    search = nsga2.FrontSearch(small, rule_placements(small), clock=lambda: 0.0, size=2)
    search.advance(1)
    search.front(1)
    if counts_front(instance) is None:
        registry.prepare(instance, dict.fromkeys("PDC", 1.0))


class _Preparation:
    """The starting placements of NSGA-II and the front they form."""

    def __init__(  # noqa: PLR0913 - all but three have defaults
        self,
        instance: Instance,
        clock: Callable[[], float],
        budget_s: float,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[FrontProgress], None] = lambda _: None,
        on_version: VersionCallback = lambda _, __: None,
        limit: int = MAX_SHOWN,
    ) -> None:
        self.began = self._reported = clock()
        self.starts: list[Ints] = []
        self._archive = Archive(instance.job.size)
        self._pending: list[Ints] = []  # not yet evaluated; evaluated in batches
        self._instance, self._clock, self._budget_s = instance, clock, budget_s
        self._should_stop, self._limit = should_stop, limit
        self._on_progress, self._on_version = on_progress, on_version

    def add(self, placements: Sequence[Ints]) -> None:
        """Add starting placements."""
        self.starts.extend(placements)
        self._pending.extend(placements)
        self._report()

    def archive(self) -> Archive:
        """Return the archive of all starting placements, evaluating the pending ones."""
        if self._pending:
            assignments = np.array(self._pending).reshape(
                len(self._pending), self._instance.job.size
            )
            self._pending.clear()
            from apps.placement.core.problem.evaluator import raw_values  # noqa: PLC0415 - numba

            raw = raw_values(self._instance, assignments)
            self._archive.offer(losses(raw / scales(self._instance)), assignments)
        return self._archive

    def pack(self, counts: CountsFront) -> None:
        """Pack a placement for each point of the front of counts, evenly spread points first."""
        for point in _spread_order(_targets(self._instance, counts)):
            if self._is_over(_PACKING_SHARE):
                return
            self.add([pack_point(self._instance, counts, point)])

    def solve(self, seed: int) -> None:
        """Solve the instance at several weights."""
        if not self._instance.job.size:
            return
        limit_s = self._budget_s * _SOLVER_SHARE / _WEIGHTS
        for weights in weights_to_try(_WEIGHTS).tolist():
            if self._is_over(_PACKING_SHARE + _SOLVER_SHARE):
                return
            search = SolverRun(
                self._instance,
                dict(zip("PDC", weights, strict=True)),
                clock=self._clock,
                limit_s=limit_s,
                should_stop=self._should_stop,
                on_progress=lambda _: self._report(),
                max_restarts=0,
                seed=seed,
            )
            self.add([registry.solve(search).assignment])

    def progress_callback(self, search: nsga2.FrontSearch) -> Callable[[FrontProgress], None]:
        """Return a function that reports the progress of a search and offers its front."""

        def report(progress: FrontProgress) -> None:
            self._on_progress(progress)
            self._on_version(progress, lambda: search.front(self._limit))

        return report

    def _report(self) -> None:
        """Report progress, unless the last report was a moment ago."""
        seconds = self._clock() - self.began
        if self.began + seconds - self._reported < _REPORT_S:
            return
        self._reported = self.began + seconds
        archive = self.archive()
        progress = FrontProgress(seconds, 0, archive.hypervolume(), archive.size)
        self._on_progress(progress)
        self._on_version(
            progress, lambda: archive.front(self._instance, limit=self._limit, seconds=seconds)
        )

    def _is_over(self, share: float) -> bool:
        return self._clock() - self.began > share * self._budget_s or self._should_stop()


def _targets(instance: Instance, counts: CountsFront) -> Floats:
    return losses(counts.raw / scales(instance))


def _spread_order(targets: Floats) -> list[int]:
    """Order points so that every prefix is evenly spread over the front."""
    from apps.placement.core.front.kernels import spread_out  # noqa: PLC0415 - numba

    stored = representatives(targets, MAX_STORED)
    order = spread_out(np.ascontiguousarray(targets[stored]), stored.size)
    return stored[order].tolist()
