"""Archive, hypervolume, ranks and thinning, compared with brute force."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front import kernels
from apps.placement.core.front.archive import (
    GRAIN,
    Archive,
    ParetoFront,
    hypervolume,
    losses,
    representatives,
    thinned_front,
)
from apps.placement.core.problem.objectives import evaluate, scales
from tests.placement.core.tiny import every_assignment, tiny_instance

ONES = (1.0, 1.0, 1.0)


def some_points(seed: int, max_points: int = 30) -> Floats:
    """(k, 3) points, on a coarse grid in two of three seeds so that there are ties."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, max_points + 1))
    if seed % 3:
        return np.asarray(rng.integers(0, 6, (count, 3)) / 5.0, dtype=np.float64)
    return rng.random((count, 3)) * 1.2


def counted_volume(points: Floats) -> float:
    """Volume of the cells of the grid of all coordinates that some point covers."""
    edges = [np.unique(np.append(np.clip(points[:, d], 0, 1), [0.0, 1.0])) for d in range(3)]
    low = np.stack(np.meshgrid(*[e[:-1] for e in edges], indexing="ij"), axis=-1)
    sides = np.meshgrid(*[np.diff(e) for e in edges], indexing="ij")
    is_covered = (points[:, None, None, None] <= low).all(axis=-1).any(axis=0)
    return float((sides[0] * sides[1] * sides[2])[is_covered].sum())


def undominated(points: Floats) -> Bools:
    """(k,) non-dominated points, the first of equal ones."""
    covers = (points[:, None] <= points[None]).all(axis=-1)
    is_equal = covers & covers.T
    earlier = np.arange(len(points))[:, None] < np.arange(len(points))[None]
    beats = (covers & ~is_equal) | (is_equal & earlier)
    stays: Bools = np.logical_not(beats.any(axis=0))
    return stays


@pytest.mark.parametrize("seed", range(150))
def test_hypervolume_is_the_volume_of_the_cells_covered(seed: int) -> None:
    points = some_points(seed)
    assert hypervolume(points, ONES) == pytest.approx(counted_volume(points), abs=1e-12)


def test_hypervolume_of_zero_one_and_two_points() -> None:
    assert hypervolume(np.empty((0, 3))) == 0.0
    assert hypervolume(np.array([[0.5, 0.5, 0.5]]), ONES) == pytest.approx(0.125)
    two = np.array([[0.5, 0.5, 0.5], [0.0, 0.9, 0.9]])
    assert hypervolume(two, ONES) == pytest.approx(0.125 + 0.01 * 0.5)
    assert hypervolume(np.array([[2.0, 0.0, 0.0]])) == 0.0
    assert hypervolume(two, (2.0, 2.0, 2.0)) == pytest.approx(1.5**3 + 0.5 * 1.1 * 1.1)


def test_hypervolume_refuses_invalid_points() -> None:
    with pytest.raises(ValueError, match="must be finite and"):
        hypervolume(np.array([[0.1, np.nan, 0.2]]))
    with pytest.raises(ValueError, match=r"not \(2, 2\)"):
        hypervolume(np.zeros((2, 2)))


def numbered(count: int) -> Ints:
    return np.arange(count, dtype=np.int64)[:, None]


@pytest.mark.parametrize("seed", range(150))
def test_an_archive_holds_exactly_the_non_dominated_points(seed: int) -> None:
    points = some_points(seed, 90)
    archive = Archive(1)
    archive.offer(points, numbered(len(points)))
    held = archive.losses[: archive.size]
    genomes = archive.genomes[archive.slots[: archive.size], 0]
    assert np.array_equal(np.sort(genomes), np.flatnonzero(undominated(points)))
    assert np.array_equal(points[genomes], held)
    assert (np.diff(held[:, 0]) >= 0.0).all()
    assert np.array_equal(np.sort(archive.slots), np.arange(archive.slots.size))


@pytest.mark.parametrize("seed", range(40))
def test_non_dominated_agrees_with_all_pairs(seed: int) -> None:
    points = some_points(seed, 60)
    assert np.array_equal(kernels.non_dominated(points), undominated(points))


@pytest.mark.parametrize("seed", range(60))
def test_ranks_are_fronts_peeled_one_by_one(seed: int) -> None:
    points = some_points(seed, 60)
    count = len(points)
    rank, last, chain = (np.empty(count, dtype=np.int64) for _ in range(3))
    order = np.lexsort((points[:, 2], points[:, 1], points[:, 0]))
    kernels.ranks(points, order, rank, last, chain)
    peeled = np.full(count, -1)
    left = order.copy()
    for front in range(count):
        stays = undominated(points[left])
        peeled[left[stays]] = front
        left = left[~stays]
    assert np.array_equal(rank, peeled)


def test_crowding_is_the_gap_around_each_point_and_infinite_at_the_ends() -> None:
    points = np.array([[0.0, 1.0, 0.5], [0.25, 0.5, 0.5], [1.0, 0.0, 0.5], [9.0, 9.0, 9.0]])
    distance = np.full(4, -1.0)
    kernels.crowding(points, np.array([2, 0, 1]), distance)
    assert distance.tolist() == [np.inf, 2.0, np.inf, -1.0]


def test_losses_invert_diversity_and_do_not_depend_on_summation_order() -> None:
    assert losses(np.array([[0.25, 1.0, 0.5]])).tolist() == [[0.25, 0.0, 0.5]]
    noisy = np.array([[0.1 + 0.2, 0.5, 0.0], [0.3, 0.5, 0.0]])
    assert noisy[0, 0] != noisy[1, 0]
    point_losses = losses(noisy)
    assert np.array_equal(point_losses[0], point_losses[1])
    assert abs(point_losses[0, 0] - 0.3) <= GRAIN


@pytest.mark.parametrize("seed", range(40))
def test_thinning_keeps_the_ends_and_is_nested(seed: int) -> None:
    drawn = np.random.default_rng(seed).random((200, 3))
    points = drawn[undominated(drawn)]
    few, more = representatives(points, 6), representatives(points, 12)
    assert few.size == 6
    assert set(few) < set(more)
    assert np.array_equal(points[few].min(axis=0), points.min(axis=0))
    assert (np.diff(more) > 0).all()


def test_thinning_prefers_points_far_from_all_others() -> None:
    line = np.array([[0.0, 1.0, 0.0], [0.01, 0.99, 0.0], [0.02, 0.98, 0.0], [0.5, 0.5, 0.0]])
    points = np.concatenate([line, [[1.0, 0.0, 0.0]]])
    assert {0, 3, 4} <= set(representatives(points, 4).tolist())


def test_thinning_to_more_than_there_are_keeps_all_and_to_none_is_refused() -> None:
    assert representatives(np.zeros((3, 3)), 3).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        representatives(np.zeros((3, 3)), 0)


def test_an_archive_above_its_limit_is_thinned_and_keeps_what_belongs_to_its_points() -> None:
    angle = np.linspace(0.0, np.pi / 2, 400)
    points = np.stack([1 - np.cos(angle), 1 - np.sin(angle), 0 * angle], axis=1)
    archive = Archive(1, limit=100)
    archive.offer(points, numbered(400))
    assert 75 <= archive.size <= 100
    genomes = archive.genomes[archive.slots[: archive.size], 0]
    assert np.array_equal(points[genomes], archive.losses[: archive.size])
    assert archive.hypervolume() > 0.98 * hypervolume(points)


@pytest.mark.parametrize("seed", range(30))
def test_the_front_of_all_placements_equals_brute_force(seed: int) -> None:
    instance = tiny_instance(seed, containers=4)
    every = every_assignment(instance)
    front = archived(seed)
    assert front.raw[0] == pytest.approx(
        [evaluate(instance, front.assignments[0]).raw[name] for name in "PDC"]
    )
    values = [evaluate(instance, a) for a in every]
    points = losses(np.array([[v.normalised[name] for name in "PDC"] for v in values]))
    best = points[undominated(points)]
    assert np.array_equal(np.unique(losses(front.normalised), axis=0), np.unique(best, axis=0))
    assert front.hypervolume == pytest.approx(1.1**3 * counted_volume(points / 1.1), abs=1e-9)


def archived(seed: int) -> ParetoFront:
    instance = tiny_instance(seed, containers=4)
    every = every_assignment(instance)
    values = np.array([list(evaluate(instance, a).raw.values())[:3] for a in every])
    archive = Archive(instance.job.size)
    archive.offer(losses(values / scales(instance)), every)
    return archive.front(instance, generations=3, seconds=0.5)


def test_a_version_cannot_be_changed() -> None:
    front = archived(4)
    with pytest.raises(ValueError, match="read-only"):
        front.raw[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        front.assignments[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        front.seconds = 1.0  # type: ignore[misc]


def test_a_thinned_version_has_the_hypervolume_of_the_whole() -> None:
    front = next(f for f in map(archived, range(60)) if len(f.raw) > 4)
    fewer = thinned_front(front, 3)
    assert fewer.raw.shape == (3, 3)
    assert fewer.assignments.shape[0] == 3
    assert fewer.hypervolume == front.hypervolume
    assert fewer.generations == 3
