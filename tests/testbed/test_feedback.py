"""Feedback on emulated applications: observations of jobs reveal the hidden truth."""

import math
from functools import lru_cache

import numpy as np
import pytest

from apps.classification.core.drift import Cusum, cusum
from apps.classification.core.feedback import (
    BYTES,
    NEIGHBOURS,
    SERVER_DEVIATION,
    Belief,
    CellKey,
    Observation,
    ServerUnits,
    predict,
    prior_belief,
    update_belief,
)
from apps.classification.core.inference import Library, infer_profile
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.emulation.core.draws import LATENCY_CRITICAL, SINGLE_NODE, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.library import library
from apps.emulation.core.probe import probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.truth import Truth
from apps.execution.core.telemetry import ObservedRun, Sample, rate
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster
from apps.workloads.core.targets import InstructionRate, ThroughputLatency

SEED = 2015
WORLD = demo_cluster(100, SEED)
NAMES = WORLD.machines.platforms.names


@lru_cache(maxsize=1)
def known() -> Library:
    """The library of the cluster."""
    rows = {
        entry.application: [
            Cell(MatrixName(m.matrix), m.column, m.value, m.standard_error) for m in entry.cells
        ]
        for entry in library(SEED, WORLD.machines.platforms)
    }
    return Library(
        1, {name: from_cells(name, columns_of(name, NAMES), rows) for name in MatrixName}
    )


def truth_of(name: str, kind: str = "analytics") -> Truth:
    return application_truth(SEED, name, kind, WORLD.machines.platforms)


def profiled(truth: Truth) -> Belief:
    """Measured on one unit and on four of the best platform, and on one other platform."""
    best = NAMES[0]
    runs = [ProbeRun(best, 1, 1), ProbeRun(best, 1, 4), ProbeRun(NAMES[-1], 1, 1)]
    cells = [
        Cell(MatrixName(m.matrix), m.column, m.value, m.standard_error)
        for m in probe(truth, runs, np.random.default_rng(1)).cells
    ]
    return prior_belief(infer_profile(truth.name, truth.kind, cells, known(), platforms=NAMES))


def jobs(truth: Truth, count: int, *, seed: int = 3, speed: float = 1.0) -> list[Observation]:
    """Jobs of one unit on random platforms with random neighbours."""
    rng = np.random.default_rng(seed)
    drifts = []
    for n in range(count):
        platform = int(rng.integers(len(NAMES)))
        neighbours = NEIGHBOURS * math.exp(rng.normal(0.0, SERVER_DEVIATION))
        per_s = truth.bytes_per_s * truth.platform_speed[platform] * neighbours * speed
        parts = (ServerUnits(NAMES[platform], 1),)
        drifts.append(Observation(f"{seed}-{n}", parts, BYTES, float(per_s), 0.01))
    return drifts


def error(belief: Belief, truth: Truth) -> float:
    """Mean error of the speeds of all platforms, at the expected interference."""
    errors = []
    for i, name in enumerate(NAMES):
        expected = predict(belief, Observation("", (ServerUnits(name, 1),), BYTES, 1.0, 0.0))
        assert expected is not None
        real = math.log(NEIGHBOURS * truth.bytes_per_s * truth.platform_speed[i])
        errors.append(abs(expected.log_rate - real))
    return float(np.mean(errors))


def drift(before: Belief, observations: list[Observation]) -> Cusum:
    update = update_belief(before, observations)
    return cusum(update.innovations, update.errors)


def test_jobs_bring_out_the_speeds_that_were_inferred() -> None:
    before, after = [], []
    for n in range(8):
        truth = truth_of(f"app-{n}")
        belief = profiled(truth)
        before.append(error(belief, truth))
        after.append(error(update_belief(belief, jobs(truth, 60)).belief, truth))
    assert np.mean(after) < 0.7 * np.mean(before)


@pytest.mark.parametrize("name", ["app-1", "app-2", "app-3"])
def test_an_application_that_stays_as_it_is_is_not_flagged_in_hundreds_of_jobs(name: str) -> None:
    truth = truth_of(name)
    detector = drift(profiled(truth), jobs(truth, 300))
    assert not detector.is_flagged
    assert detector.observations == 300


@pytest.mark.parametrize("name", ["app-1", "app-2", "app-3"])
@pytest.mark.parametrize("speed", [0.6, 1.6])
def test_an_application_that_changes_is_flagged_within_six_jobs(name: str, speed: float) -> None:
    truth = truth_of(name)
    before, past = profiled(truth), jobs(truth, 30)
    changed = jobs(truth, 6, seed=4, speed=speed)
    assert not drift(before, past).is_flagged
    detector = drift(before, [*past, *changed])
    assert detector.is_flagged
    assert (detector.slower > detector.faster) == (speed < 1.0)


def alone(truth: Truth, load: float, at: list[float]) -> tuple[Engine, list[Sample]]:
    """One job on four units of the best server, and its samples at these seconds."""
    world: DemoCluster = WORLD
    best = int(np.flatnonzero(world.machines.platform == 0)[0])
    engine = Engine(world.machines, np.random.default_rng(5))
    engine.start([EngineOrder("job", truth, [(best, 4)], math.inf, load=load)], 0.0)
    samples = []
    for at_s in at:
        engine.advance(at_s)
        runs = engine.jobs(["job"])
        value = runs.latency_s if load else runs.metric
        samples.append(Sample(at_s, 0.0, float(value[0])))
    return engine, samples


def run(target: ThroughputLatency | InstructionRate) -> ObservedRun:
    is_service = isinstance(target, ThroughputLatency)
    return ObservedRun(target, 0.0, 4, None, is_service, True, 0.0, 0.0, None)


def test_the_monitors_of_a_service_tell_its_capacity() -> None:
    truth = truth_of("search", LATENCY_CRITICAL)
    load = truth.metric_per_s  # a quarter of what four units can serve, more or less
    engine, samples = alone(truth, load, [60.0 * n for n in range(1, 20)])
    measured_rate = rate(run(ThroughputLatency(qps=load, latency_seconds=0.1)), samples)
    assert measured_rate is not None
    capacity = engine.speed("job") * truth.metric_per_s
    assert abs(math.log(measured_rate.per_s / capacity)) < 2.0 * measured_rate.deviation


def test_the_monitors_of_a_single_node_job_tell_its_instructions() -> None:
    truth = truth_of("spec", SINGLE_NODE)
    engine, samples = alone(truth, 0.0, [60.0 * n for n in range(1, 20)])
    measured_rate = rate(run(InstructionRate(1e9)), samples)
    assert measured_rate is not None
    # 19 readings with 2 % noise each: three deviations of their mean are 1.4 %
    assert measured_rate.per_s == pytest.approx(
        engine.speed("job") * truth.metric_per_s, rel=0.014
    )


def test_a_platform_nobody_measured_is_learnt_with_its_place() -> None:
    truth = truth_of("app-5")
    before = profiled(truth)
    middle = NAMES[6]
    samples_of_platform = [s for s in jobs(truth, 400) if s.parts[0].platform == middle]
    after = update_belief(before, samples_of_platform).belief
    i = before.keys.index(CellKey(MatrixName.HETEROGENEITY, middle))
    assert after.deviation[i] < 0.8 * before.deviation[i]
