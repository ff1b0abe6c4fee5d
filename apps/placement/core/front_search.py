"""The whole way to a front: counts where they decide, the solver at several weights, NSGA-II.

Where the front of class counts applies, placements are packed for its points; once every point is
a placement the front is proven, and the search is over. Otherwise those placements, what rules of
thumb make and what the solver answers at several weights are where NSGA-II begins. Source:
ClavisMO §3.1, C3; limits.md §3.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core import nsga2, solver
from apps.placement.core.examples import Draw, draw
from apps.placement.core.front import (
    MOST_HELD,
    MOST_SHOWN,
    Archive,
    Front,
    losses,
    scales,
    thin,
)
from apps.placement.core.front_counts import CountsFront, counts_front, placed
from apps.placement.core.instance import Instance
from apps.placement.core.nsga2 import Progress
from apps.placement.core.search import Search
from apps.placement.core.starts import by_rule, weights_to_try

_PACKING_SHARE: Final = 0.4  # of the budget
_SOLVER_SHARE: Final = 0.25
_WEIGHTS: Final = 10  # vectors at which the solver is asked
_LOOK_S: Final = 0.1  # between two words to the watcher, before there are generations

Keep = Callable[[Progress, Callable[[], Front]], None]


def find_front(  # noqa: PLR0913 - all but three have defaults
    instance: Instance,
    *,
    clock: Callable[[], float],
    budget_s: float,
    seed: int = 0,
    most: int = MOST_SHOWN,
    more: Sequence[Ints] = (),
    should_stop: Callable[[], bool] = lambda: False,
    watch: Callable[[Progress], None] = lambda _: None,
    keep: Keep = lambda _, __: None,
) -> Front:
    """Search for the front until the budget is used up, told to stop, or it is proven.

    Parameters
    ----------
    clock : gives seconds
    most : points of the answer
    more : (c,) placements to begin with, such as a search that was cut short had found
    watch : is told a few times a second
    keep : is handed, as often, what makes a version of what was found so far: it costs some
        thousandths of a second, and nothing where it is not called

    Raises
    ------
    ValueError : a budget that is not positive, or fewer than one point asked for.
    """
    if not budget_s > 0.0:
        raise ValueError(f"budget_s must be above 0, not {budget_s}")
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    run = _Run(
        instance, clock, budget_s, should_stop=should_stop, watch=watch, keep=keep, most=most
    )
    counts = counts_front(instance)
    run.take([*by_rule(instance), *more])
    if counts is not None:
        run.pack(counts)
    is_exact = counts is not None and run.judge().holds(_targets(instance, counts))
    if not is_exact:
        run.solve(seed)
    search = nsga2.Search(instance, run.starts, clock=clock, seed=seed, began=run.began)
    if not is_exact:
        search.run(budget_s, should_stop=should_stop, watch=run.watching(search))
        is_exact = counts is not None and search.archive.holds(_targets(instance, counts))
    watch(search.progress())
    return search.front(most, is_exact=is_exact)


def prepare(instance: Instance) -> None:
    """Load, and the first time compile, what a search will need: before its clock runs."""
    small = draw(Draw(4), 0)
    counts = counts_front(small)
    if counts is not None:
        _Run(small, lambda: 0.0, 1.0).pack(counts)
    search = nsga2.Search(small, by_rule(small), clock=lambda: 0.0, size=2)
    search.advance(1)
    search.front(1)
    if counts_front(instance) is None:
        solver.prepare(instance, dict.fromkeys("PDC", 1.0))


class _Run:
    """What is under way before there are generations, and when it has to end."""

    def __init__(  # noqa: PLR0913 - all but three have defaults
        self,
        instance: Instance,
        clock: Callable[[], float],
        budget_s: float,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], None] = lambda _: None,
        keep: Keep = lambda _, __: None,
        most: int = MOST_SHOWN,
    ) -> None:
        self.began = self._told = clock()
        self.starts: list[Ints] = []
        self._archive = Archive(instance.job.size)
        self._waiting: list[Ints] = []  # to be judged many at once
        self._instance, self._clock, self._budget_s = instance, clock, budget_s
        self._should_stop, self._watch, self._keep, self._most = should_stop, watch, keep, most

    def take(self, placements: Sequence[Ints]) -> None:
        """Begin with these, too."""
        self.starts.extend(placements)
        self._waiting.extend(placements)
        self._tell()

    def judge(self) -> Archive:
        """Return the archive of all that was taken."""
        if self._waiting:
            whole = np.array(self._waiting).reshape(len(self._waiting), self._instance.job.size)
            self._waiting.clear()
            raw = nsga2.raw_values(self._instance, whole)
            self._archive.offer(losses(raw / scales(self._instance)), whole)
        return self._archive

    def pack(self, counts: CountsFront) -> None:
        """Pack a placement for each point of the front, those that stand for most first."""
        for point in _in_order(_targets(self._instance, counts)):
            if self._is_over(_PACKING_SHARE):
                return
            self.take([placed(self._instance, counts, point)])

    def solve(self, seed: int) -> None:
        """Ask the solver at several weights."""
        if not self._instance.job.size:
            return
        limit_s = self._budget_s * _SOLVER_SHARE / _WEIGHTS
        for weights in weights_to_try(_WEIGHTS).tolist():
            if self._is_over(_PACKING_SHARE + _SOLVER_SHARE):
                return
            search = Search(
                self._instance,
                dict(zip("PDC", weights, strict=True)),
                clock=self._clock,
                limit_s=limit_s,
                should_stop=self._should_stop,
                watch=lambda _: self._tell(),
                seed=seed,
            )
            self.take([solver.solve(search).assignment])

    def watching(self, search: nsga2.Search) -> Callable[[Progress], None]:
        """Return what a search tells its progress, so that versions of it can be kept."""

        def told(progress: Progress) -> None:
            self._watch(progress)
            self._keep(progress, lambda: search.front(self._most))

        return told

    def _tell(self) -> None:
        """Say how far it is, if that was not just said."""
        seconds = self._clock() - self.began
        if self.began + seconds - self._told < _LOOK_S:
            return
        self._told = self.began + seconds
        archive = self.judge()
        progress = Progress(seconds, 0, archive.hypervolume(), archive.size)
        self._watch(progress)
        self._keep(
            progress, lambda: archive.front(self._instance, most=self._most, seconds=seconds)
        )

    def _is_over(self, share: float) -> bool:
        return self._clock() - self.began > share * self._budget_s or self._should_stop()


def _targets(instance: Instance, counts: CountsFront) -> Floats:
    return losses(counts.raw / scales(instance))


def _in_order(targets: Floats) -> list[int]:
    """Points in an order whose every beginning is spread over the whole."""
    from apps.placement.core.front_kernels import spread_out  # noqa: PLC0415 - numba

    few = thin(targets, MOST_HELD)
    order = spread_out(np.ascontiguousarray(targets[few]), few.size)
    return few[order].tolist()
