"""Every world of the registry keeps the promises of `World`."""

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.seeds import Stream, stream_seed
from apps.emulation.core.truth import PAPER_CURVES, QOS
from apps.emulation.core.worlds import PAPER, WORLDS, world_named
from tests.emulation.worlds import all_platforms

NAMES = ("cr1.8xlarge", "m1.small", "elsewhere")


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_arguments_draw_the_same_truth(world: str, kind: str) -> None:
    drawn = world_named(world)
    platforms = drawn.catalogue(NAMES, seed=7)
    first, second = (drawn.application_truth(7, "sort", kind, platforms) for _ in range(2))
    other = drawn.application_truth(8, "sort", kind, platforms)
    for name in ("platform_speed", "tolerated", "caused"):
        assert np.array_equal(getattr(first, name), getattr(second, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))


@pytest.mark.parametrize("world", list(WORLDS))
def test_a_further_platform_changes_nothing_else(world: str) -> None:
    drawn = world_named(world)
    few = drawn.application_truth(7, "sort", "batch", drawn.catalogue(NAMES[:2], seed=7))
    more = drawn.application_truth(7, "sort", "batch", drawn.catalogue(NAMES, seed=7))
    assert np.array_equal(few.platform_speed, more.platform_speed[:2])
    assert few.scale_up == more.scale_up
    assert np.array_equal(few.tolerated, more.tolerated)


@pytest.mark.parametrize("world", list(WORLDS))
def test_truths_are_within_their_ranges(world: str) -> None:
    drawn = world_named(world)
    platforms = drawn.catalogue(NAMES, seed=7, reference=1)
    for i in range(200):
        truth = drawn.application_truth(7, f"app-{i}", KINDS[i % 4], platforms)
        assert truth.platform_speed[1] == 1.0
        assert (truth.platform_speed > 0.0).all()
        for scores in (truth.phases.tolerated, truth.phases.caused):
            assert scores.shape[1] == N_SOURCES
            assert scores.min() >= 0.0
            assert scores.max() <= 100.0
        assert truth.phases.tolerated.min() >= 1.0
        assert truth.curves.plateau.max() < QOS
        assert truth.curves.decay.min() > 0.0
        assert 0.0 <= truth.curves.floor < 1.0


@pytest.mark.parametrize("world", list(WORLDS))
def test_the_speed_of_a_server_depends_on_its_id_only(world: str) -> None:
    drawn = world_named(world)
    few = drawn.server_speed(7, np.array([3, 900]))
    more = drawn.server_speed(7, np.array([1, 900, 2, 3]))
    assert (few > 0.0).all()
    assert few.tolist() == [more[3], more[1]]


def test_the_paper_world_is_the_generator_of_the_papers() -> None:
    platforms = all_platforms()
    drawn = PAPER.application_truth(7, "sort", "analytics", platforms)
    expected = application_truth(7, "sort", "analytics", platforms)
    assert np.array_equal(drawn.tolerated, expected.tolerated)
    assert drawn.scale_out == expected.scale_out
    assert drawn.curves is PAPER_CURVES
    assert PAPER.server_speed(7, np.arange(3)).tolist() == [1.0, 1.0, 1.0]


def test_an_unknown_world_names_those_that_exist() -> None:
    with pytest.raises(ValueError, match="must be one of measured, paper"):
        world_named("papper")


def test_library_development_and_test_have_separate_seeds() -> None:
    seeds = {stream_seed(seed, stream) for seed in range(50) for stream in Stream}
    assert len(seeds) == 150
    assert stream_seed(1, Stream.TEST) == stream_seed(1, Stream.TEST)


def test_tasks_differ_in_the_measured_world_only() -> None:
    for world in WORLDS.values():
        platforms = world.catalogue(NAMES, seed=7)
        spreads = [
            world.application_truth(7, f"app-{i}", KINDS[i % 4], platforms).task_spread
            for i in range(300)
        ]
        is_measured = world.name == "measured"
        assert min(spreads) >= 0.0
        assert max(spreads) == (1.5 if is_measured else 0.0)
        assert np.median(spreads) == pytest.approx(np.exp(-1.94) * is_measured, rel=0.2)
