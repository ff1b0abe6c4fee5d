"""The state of a source: measured, not reached, inconclusive or invalid."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.profiling.core.paired import Pair
from apps.profiling.core.ramp import QOS, NoisePrior
from apps.profiling.core.sensitivity import (
    MAX_INVALID,
    MAX_PAIRS,
    RunPair,
    Sensitivity,
    State,
    measure,
)
from apps.profiling.core.windows import Basis, Fault, Window

PRIOR = NoisePrior(0.01, weight=6.0)


def window(speed: float, *, told: float = 0.0) -> Window:
    """A window of one second, next to a stressor on another core."""
    return Window(
        wall_s=1.0, work=speed, cpu_s=1.0, wait_s=0.0, told=told, pressed=told, cores=2
    )  # fmt: skip


def program(
    loss_at_full: float, *, noise: float = 0.0, seed: int = 1, drift: float = 0.0
) -> RunPair:
    """A program whose speed falls linearly with the intensity."""
    rng = np.random.default_rng(seed)
    base = 100.0

    def run(intensity: int, is_on_first: bool) -> Pair:
        nonlocal base
        base *= 1.0 + drift
        on, off = base * np.exp(rng.normal(0.0, noise / math.sqrt(2.0), 2))
        return Pair(
            on=window(on * (1.0 - loss_at_full * intensity / 100.0), told=intensity / 100.0),
            off=window(off),
        )

    return run


def disturbed(run: RunPair, *, share: float, seed: int = 1) -> RunPair:
    """A program whose windows are disturbed now and then, which makes them much slower."""
    rng = np.random.default_rng(seed)

    def run_disturbed(intensity: int, is_on_first: bool) -> Pair:
        pair = run(intensity, is_on_first)
        if rng.random() >= share:
            return pair
        return Pair(
            on=replace(pair.on, work=pair.on.work / 2.0, foreign_s=0.9),
            off=pair.off,
        )

    return run_disturbed


def test_a_loss_of_20_percent_at_full_intensity_is_measured_at_25() -> None:
    # 1 - 0.2 x / 100 = 0.95 at x = 25
    found = measure(program(0.2, noise=0.01), Basis.CPU, PRIOR)
    assert found.state is State.MEASURED
    assert found.score is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 25.0 <= found.high
    assert found.score == pytest.approx(25.0, abs=12.0)


def test_full_intensity_comes_first_and_orders_alternate() -> None:
    calls: list[tuple[int, bool]] = []

    def run(intensity: int, is_on_first: bool) -> Pair:
        calls.append((intensity, is_on_first))
        return program(0.0)(intensity, is_on_first)

    assert measure(run, Basis.CPU, PRIOR).state is State.NOT_REACHED
    assert calls == [(100, False), (100, True)]


def test_no_loss_is_not_reached_and_has_no_score() -> None:
    found = measure(program(0.0, noise=0.01), Basis.CPU, PRIOR)
    assert (found.state, found.score, found.low, found.high) == (
        State.NOT_REACHED, None, 100.0, None,
    )  # fmt: skip
    assert [point.intensity for point in found.points] == [100]
    assert found.points[0].effect.low > QOS


def test_noise_leaves_the_answer_open() -> None:
    found = measure(program(0.05, noise=0.3), Basis.CPU, NoisePrior(0.3, weight=6.0))
    assert found.state is State.INCONCLUSIVE
    assert found.score is None
    assert sum(point.effect.pairs for point in found.points) == MAX_PAIRS


def test_an_idle_stressor_is_invalid() -> None:
    def run(intensity: int, is_on_first: bool) -> Pair:
        pair = program(0.5)(intensity, is_on_first)
        return replace(pair, on=replace(pair.on, pressed=0.01))

    found = measure(run, Basis.CPU, PRIOR)
    assert found.state is State.INVALID
    assert found.reason == Fault.IDLE_STRESSOR
    assert found.rejected == {Fault.IDLE_STRESSOR.value: MAX_INVALID + 1}
    assert found.points == ()


def test_valid_pairs_are_kept_when_others_are_disturbed() -> None:
    found = measure(disturbed(program(0.0), share=0.4), Basis.CPU, PRIOR)
    assert found.state is State.NOT_REACHED
    assert found.points[0].effect.ratio == pytest.approx(1.0)


def test_a_changing_baseline_is_invalid() -> None:
    found = measure(program(0.2, noise=0.01, drift=-0.03), Basis.CPU, PRIOR)
    assert found.state is State.INVALID
    assert "changed by -" in found.reason


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0.0, 1.0), noise=st.floats(0.0, 0.03), seed=st.integers(0, 10_000))
def test_foreign_load_never_makes_an_insensitive_program_sensitive(
    share: float, noise: float, seed: int
) -> None:
    run = disturbed(program(0.0, noise=noise, seed=seed), share=share, seed=seed)
    found = measure(run, Basis.CPU, NoisePrior(max(noise, 0.001), weight=6.0))
    assert found.state is not State.MEASURED


def states_are_explained(found: Sensitivity) -> bool:
    """Whether a result says what its state requires."""
    match found.state:
        case State.MEASURED:
            return found.score is not None and any(p.effect.high < QOS for p in found.points)
        case State.NOT_REACHED:
            return found.score is None and found.low == 100.0
        case _:
            return bool(found.reason) and found.score is None and found.low is None


@settings(max_examples=100, deadline=None)
@given(
    loss=st.floats(0.0, 0.8),
    noise=st.floats(0.0, 0.4),
    share=st.floats(0.0, 0.9),
    seed=st.integers(0, 10_000),
)
def test_every_state_has_its_evidence(loss: float, noise: float, share: float, seed: int) -> None:
    run = disturbed(program(loss, noise=noise, seed=seed), share=share, seed=seed)
    found = measure(run, Basis.CPU, PRIOR)
    assert states_are_explained(found)
    assert [p.intensity for p in found.points] == sorted({p.intensity for p in found.points})


def test_a_known_loss_lies_in_the_interval_in_most_runs() -> None:
    # 90 % intervals and 200 runs; the standard error of the share is 2 %
    results = [
        measure(program(0.2, noise=0.01, seed=seed), Basis.CPU, PRIOR) for seed in range(200)
    ]
    assert {result.state for result in results} == {State.MEASURED}
    hits = [r.low <= 25.0 <= r.high for r in results if r.low is not None and r.high is not None]
    assert np.mean(hits) > 0.84
