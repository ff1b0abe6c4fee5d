"""One front over several moments of a cluster: the objectives are averaged over the moments.

A point is one placement for each moment. The moments do not affect each other, so every point of
the front of the averages consists of points of the fronts of its moments: the fronts are searched
one by one and then added, dominated sums being dropped. Between two additions the sums are thinned
to evenly spread ones. Source: ClavisMO §3.1, C3: the front of a representative hour.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front.archive import (
    MAX_SHOWN,
    Archive,
    ParetoFront,
    losses,
    representatives,
)
from apps.placement.core.front.nsga2 import FrontProgress
from apps.placement.core.front.search import VersionCallback, find_front
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales

MAX_MOMENTS: Final = 12  # an hour in steps of five minutes
MOMENT_STEP_S: Final = 300.0
_ADDED: Final = 200  # points of each front, and of each sum, that are added
_MIN_SHOWN: Final = 100
_MAX_CELLS: Final = 8_000_000  # points x containers that are stored: 32 MB
_ROUNDS: Final = (0.3, 0.7)  # shares of the budget; after each there is a version


def window_moments(until_s: float, window_s: float) -> tuple[float, ...]:
    """Return evenly spaced cluster times of a window: every five minutes, at most `MAX_MOMENTS`.

    The first and the last are the ends of the window.
    """
    count = min(max(int(window_s // MOMENT_STEP_S) + 1, 2), MAX_MOMENTS)
    times = np.linspace(until_s - window_s, until_s, count)
    return tuple(max(float(at_s), 0.0) for at_s in times)


def mean_scales(instances: Sequence[Instance]) -> Floats:
    """(3,) divisors of the averaged raw P, D and C; infinite where an objective is always 0."""
    each = np.array([scales(instance) for instance in instances])
    total = np.where(np.isfinite(each), each, 0.0).mean(axis=0)
    divisors: Floats = np.where(total > 0.0, total, np.inf)
    return divisors


def split_by_moment(instances: Sequence[Instance], assignments: Ints) -> list[Ints]:
    """Split (k, sum c) assignments over all moments into (k, c) for each moment."""
    ends = np.cumsum([instance.job.size for instance in instances])[:-1]
    return np.split(assignments, ends, axis=1)


def find_front_of_moments(  # noqa: PLR0913 - all but three have defaults
    instances: Sequence[Instance],
    *,
    clock: Callable[[], float],
    budget_s: float,
    seed: int = 0,
    starts: Sequence[Ints] = (),
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[FrontProgress], None] = lambda _: None,
    on_version: VersionCallback = lambda _, __: None,
) -> ParetoFront:
    """Search the front of each moment in turn, twice, and add them.

    Parameters
    ----------
    starts : (sum c,) additional starting placements over all moments

    Returns
    -------
    The front; an assignment has the containers of the first moment, then those of the next.
    """
    if len(instances) == 1:
        return find_front(
            instances[0],
            clock=clock,
            budget_s=budget_s,
            seed=seed,
            starts=starts,
            should_stop=should_stop,
            on_progress=on_progress,
            on_version=on_version,
        )
    search = _MomentSearch(instances, clock, budget_s, seed, starts)
    for share in _ROUNDS:
        for moment in range(len(instances)):
            search.improve(moment, share, should_stop, on_progress)
        front = search.sum()
        on_progress(search.progress(front))
        on_version(search.progress(front), lambda front=front: front)  # type: ignore[misc]
    return front


class _MomentSearch:
    """The fronts of the moments found so far."""

    def __init__(
        self,
        instances: Sequence[Instance],
        clock: Callable[[], float],
        budget_s: float,
        seed: int,
        starts: Sequence[Ints],
    ) -> None:
        self._instances, self._clock, self._seed = instances, clock, seed
        self._began, self._budget_s = clock(), budget_s
        given = np.array(starts, dtype=np.int64).reshape(
            len(starts), sum(instance.job.size for instance in instances)
        )
        self._starts = [list(part) for part in split_by_moment(instances, given)]
        self._fronts: list[ParetoFront | None] = [None] * len(instances)
        self._generations = 0
        self._last = FrontProgress(0.0, 0, 0.0, 0)

    def improve(
        self,
        moment: int,
        share: float,
        should_stop: Callable[[], bool],
        on_progress: Callable[[FrontProgress], None],
    ) -> None:
        """Search the front of one moment, from its last points, for a share of the budget."""

        def report(progress: FrontProgress) -> None:
            on_progress(
                FrontProgress(
                    self._clock() - self._began,
                    self._generations + progress.generations,
                    self._last.hypervolume,
                    self._last.points,
                )
            )

        found = self._fronts[moment]
        known = [] if found is None else list(found.assignments)
        front = find_front(
            self._instances[moment],
            clock=self._clock,
            budget_s=share * self._budget_s / len(self._instances),
            seed=self._seed + moment,
            limit=_ADDED,
            starts=[*self._starts[moment], *known],
            should_stop=should_stop,
            on_progress=report,
        )
        self._generations += front.generations
        self._fronts[moment] = front

    def sum(self) -> ParetoFront:
        """Return the non-dominated averages of one point of each moment."""
        fronts = [front for front in self._fronts if front is not None]
        divisors = mean_scales(self._instances)
        width = sum(instance.job.size for instance in self._instances)
        limit = int(min(max(_MAX_CELLS // max(width, 1), _MIN_SHOWN), MAX_SHOWN))
        choice, points, volume = add_fronts([front.raw for front in fronts], divisors, limit)
        raw = np.mean([f.raw[choice[:, m]] for m, f in enumerate(fronts)], axis=0)
        order = np.lexsort(raw.T[::-1])
        parts = [f.assignments[choice[order, m]] for m, f in enumerate(fronts)]
        return ParetoFront(
            raw=raw[order],
            normalised=raw[order] / divisors,
            assignments=np.concatenate(parts, axis=1),
            points=points,
            hypervolume=volume,
            generations=self._generations,
            seconds=self._clock() - self._began,
            is_exact=False,
        )

    def progress(self, front: ParetoFront) -> FrontProgress:
        """Return the progress after a round."""
        self._last = FrontProgress(
            front.seconds, front.generations, front.hypervolume, front.points
        )
        return self._last


def add_fronts(raws: Sequence[Floats], divisors: Floats, limit: int) -> tuple[Ints, int, float]:
    """Choose one point of each front so that the averages are not dominated.

    Parameters
    ----------
    raws : (k, 3) raw values of each front
    divisors : (3,) of the averages
    limit : maximum number of choices returned

    Returns
    -------
    (≤ limit, m) point of each front, the number of averages found, and their hypervolume.
    """
    choice = np.arange(len(raws[0]))[:, None]
    total = raws[0]
    archive = _archive_of(total / divisors, choice)
    for done, raw in enumerate(raws[1:], start=1):
        kept = representatives(archive.losses[: archive.size], _ADDED)
        choice = archive.genomes[archive.slots[kept]].astype(np.int64)
        total = np.sum([raws[m][choice[:, m]] for m in range(done)], axis=0)
        sums = (total[:, None, :] + raw[None, :, :]).reshape(-1, 3)
        pairs = np.concatenate(
            [
                np.repeat(choice, len(raw), axis=0),
                np.tile(np.arange(len(raw)), len(choice))[:, None],
            ],
            axis=1,
        )
        archive = _archive_of(sums / ((done + 1) * divisors), pairs)
    kept = representatives(archive.losses[: archive.size], limit)
    chosen: Ints = archive.genomes[archive.slots[kept]].astype(np.int64)
    return chosen, archive.size, archive.hypervolume()


def _archive_of(normalised: Floats, choices: Ints) -> Archive:
    """Return the non-dominated ones of (k, 3) averages with their (k, m) choices."""
    archive = Archive(choices.shape[1])
    archive.offer(losses(normalised), choices)
    return archive
