"""What the scheduler knows of the applications of a replay.

Inferred profiles come from production's classification: the live plan chooses the cells, simulated
profiling runs measure them with noise, and the library and the estimators of production infer the
others. A true profile holds the hidden truth instead, with intervals of width zero. Without
profiling, every application of a kind has the average of the library.
"""

from dataclasses import replace

import numpy as np

from apps.classification.core.estimates import NO_ESTIMATES, Estimates
from apps.classification.core.inference import Library, infer_profile
from apps.classification.core.matrix import Cell, MatrixName, columns_of, from_cells
from apps.classification.core.profile import SCALE_POINTS, Profile
from apps.classification.core.ranking import ranking
from apps.emulation.core.library import library
from apps.emulation.core.probe import SIZES, probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.seeds import Stream, generator, stream_seed
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.measurements import MeasuredCell
from apps.profiling.core.plan import PlatformShape, plan
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.replay.model import ReplayCluster
from apps.workloads.core.framework import LABELS, SETTINGS


def inferred_profiles(
    truths: list[Truth], cluster: ReplayCluster, emulated: DemoCluster, seed: int
) -> list[Profile]:
    """Profile each application as production does; deterministic for a seed."""
    platforms = emulated.machines.platforms
    known = _library(emulated, seed)
    counts = np.bincount(cluster.platform, minlength=len(cluster.platforms)).tolist()
    shapes = [
        PlatformShape(platform.name, count, platform.cores)
        for platform, count in zip(cluster.platforms, counts, strict=True)
        if count
    ]
    order = ranking(known, platforms.names)
    profiles = []
    for truth in truths:
        rng = generator(seed, "replay profiling", truth.name)
        probing = plan(truth.kind, shapes, rng, ranking=order)
        runs = [ProbeRun.of(run) for run in probing["runs"]]
        cells = _cells(probe(truth, runs, rng, budget_s=probing["budget_s"]).cells)
        profiles.append(
            infer_profile(truth.name, truth.kind, cells, known, platforms=platforms.names)
        )
    return profiles


def average_profiles(truths: list[Truth], emulated: DemoCluster, seed: int) -> list[Profile]:
    """Return the average of the library for each application: nothing was measured."""
    known, platforms = _library(emulated, seed), emulated.machines.platforms.names
    of_kind = {
        kind: infer_profile("", kind, [], known, platforms=platforms)
        for kind in sorted({truth.kind for truth in truths})
    }
    return [replace(of_kind[truth.kind], application=truth.name) for truth in truths]


def true_profile(truth: Truth) -> Profile:
    """Return the truth as a profile."""
    framework = truth.framework
    speeds = [] if framework is None else [framework.speed(setting) for setting in SETTINGS]
    return Profile(
        application=truth.name,
        kind=truth.kind,
        revision=0,
        platforms=truth.catalogue.names,
        base_rate=truth.metric_per_s,
        base_rate_se=0.0,
        bytes_rate=truth.bytes_per_s,
        bytes_rate_se=0.0,
        platform_speed=_exact(truth.platform_speed),
        scale_up=_exact([truth.scale_up.speed_up(n) for n in SIZES]),
        scale_out=_exact([truth.scale_out.efficiency(n) for n in SCALE_POINTS]),
        tolerated=_exact(truth.tolerated),
        caused=_exact(truth.caused),
        settings=LABELS if speeds else (),
        framework=_exact(speeds) if speeds else NO_ESTIMATES,
    )


def _exact(values: Floats | list[float]) -> Estimates:
    row = np.array(values, dtype=np.float64)
    return Estimates(row, row.copy(), row.copy(), np.ones(row.shape, dtype=np.bool_))


def _library(emulated: DemoCluster, seed: int) -> Library:
    """Measure the library of the cluster, whose applications are not those of the workload."""
    names, own = emulated.machines.platforms.names, stream_seed(seed, Stream.LIBRARY)
    entries = library(own, emulated.machines.platforms, world=emulated.world)
    rows = {entry.application: _cells(entry.cells) for entry in entries}
    return Library(
        1, {name: from_cells(name, columns_of(name, names), rows) for name in MatrixName}
    )


def _cells(measured: tuple[MeasuredCell, ...]) -> list[Cell]:
    return [
        Cell(MatrixName(cell.matrix), cell.column, cell.value, cell.standard_error)
        for cell in measured
    ]
