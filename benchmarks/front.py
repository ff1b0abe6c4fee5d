"""Quality of a front after ten seconds and time of a generation, compared with pymoo's NSGA-II.

    ./dev bench front [--only plain,real] [--budget 10] [--peer 60] [--seed 0]

plain: identical nodes, intensities 0 and 1, where the exact front is known. rules: NSGA-II
starts from rules of thumb only; whole: the complete search of `berth front`. real: arbitrary
intensities and two kinds of nodes. Shares of hypervolume use the reference point (1.1, 1.1, 1.1)
and, stricter, a point a tenth of the range beyond the exact front's worst values.
"""

import argparse
import statistics
import sys
import time
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.front.archive import REFERENCE, ParetoFront, hypervolume, losses
from apps.placement.core.front.counts import counts_front
from apps.placement.core.front.nsga2 import POPULATION, FrontSearch
from apps.placement.core.front.search import find_front, prepare
from apps.placement.core.front.starts import rule_placements
from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales
from benchmarks import _pymoo
from benchmarks._calibration import calibrate, calibration_line

PLAIN: Final = {
    "HPC 100": InstanceSpec(100),
    "Hadoop 600": InstanceSpec(600, nodes_per_rack=40, mix=JobMix.HADOOP),
    "HPC 1,024": InstanceSpec(),
}
REAL: Final = {
    "HPC 100": InstanceSpec(100, nodes_per_rack=16, has_real_intensities=True, kinds=2),
    "Hadoop 600": InstanceSpec(
        600, nodes_per_rack=40, mix=JobMix.HADOOP, has_real_intensities=True, kinds=2
    ),
    "HPC 1,024": InstanceSpec(has_real_intensities=True, kinds=2),
}
REPETITIONS: Final = 15  # of a front that takes milliseconds
ROUNDS: Final = 3  # our search and pymoo in turn, to time generations
ROUND_S: Final = 2.0


def main() -> int:
    """Print the hypervolume that each search reaches."""
    parser = argparse.ArgumentParser(prog="benchmarks.front", description=__doc__)
    parser.add_argument("--only", default="plain,real")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--peer", type=float, default=60.0, help="seconds for pymoo")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before_ms = calibrate()
    if not _pymoo.is_installed():
        _say(_pymoo.NOT_INSTALLED)
    if "plain" in options.only:
        for name, spec in PLAIN.items():
            _plain(name, generate_instance(spec, options.seed), options.budget)
    if "real" in options.only:
        for name, spec in REAL.items():
            _real(name, generate_instance(spec, options.seed), options.budget, options.peer)
    _say(calibration_line(before_ms, calibrate()))
    return 0


def _plain(name: str, instance: Instance, budget_s: float) -> None:
    prepare(instance)
    counts = counts_front(instance)
    if counts is None:
        raise RuntimeError(f"{name} is not plain")
    seconds = statistics.median(_counts_seconds(instance) for _ in range(REPETITIONS))
    exact = losses(counts.raw / scales(instance))
    _say(f"{name:<11} exact front of counts: {len(exact)} points in {seconds * 1e3:.2f} ms")
    search = FrontSearch(instance, rule_placements(instance), clock=time.perf_counter)
    search.run(budget_s)
    points = search.archive.losses[: search.archive.size]
    _say(f"{name:<11} rules: {_shares(points, exact)} after {search.seconds:.1f} s")
    front = find_front(instance, clock=time.perf_counter, budget_s=budget_s)
    proven = "proven" if front.is_exact else "not proven"
    _say(
        f"{name:<11} whole: {_shares(_points(front), exact)} after {front.seconds:.2f} s, {proven}"
    )
    _speed(name, instance)


def _real(name: str, instance: Instance, budget_s: float, peer_s: float) -> None:
    prepare(instance)
    search = FrontSearch(instance, rule_placements(instance), clock=time.perf_counter)
    search.run(budget_s)
    _say(f"{name:<11} real, rules: {search.archive.hypervolume():.4f} after {budget_s:.0f} s")
    front = find_front(instance, clock=time.perf_counter, budget_s=budget_s)
    _say(f"{name:<11} real, whole: {front.hypervolume:.4f} after {front.seconds:.1f} s")
    if _pymoo.is_installed():
        peer = _pymoo.run(instance, peer_s, size=POPULATION, seed=1)
        _say(f"{name:<11} real, pymoo: {peer.hypervolume:.4f} after {peer.seconds:.0f} s")
    _speed(f"{name}, real", instance)


def _speed(name: str, instance: Instance) -> None:
    """Time our generations and those of pymoo in turn."""
    search = FrontSearch(instance, rule_placements(instance), clock=time.perf_counter)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        began, before = time.perf_counter(), search.generations
        search.run(search.seconds + ROUND_S)
        ours.append((time.perf_counter() - began) / (search.generations - before))
        if _pymoo.is_installed():
            peer = _pymoo.run(instance, ROUND_S, size=POPULATION, seed=1)
            theirs.append(peer.seconds / peer.generations)
    own_s = statistics.median(ours)
    line = f"{name:<11} {own_s * 1e3:.2f} ms per generation of {POPULATION}"
    if theirs:
        peer_s = statistics.median(theirs)
        line += f"; pymoo {peer_s * 1e3:.1f} ms, {peer_s / own_s:.0f} times as long"
    _say(line)


def _counts_seconds(instance: Instance) -> float:
    began = time.perf_counter()
    counts_front(instance)
    return time.perf_counter() - began


def _points(front: ParetoFront) -> Floats:
    return losses(front.normalised)


def _shares(points: Floats, exact: Floats) -> str:
    worst, best = exact.max(axis=0), exact.min(axis=0)
    p, d, c = np.maximum(worst + 0.1 * (worst - best), worst + 1e-6).tolist()
    wide = hypervolume(points) / hypervolume(exact)
    strict = hypervolume(points, (p, d, c)) / hypervolume(exact, (p, d, c))
    return f"{wide:.2%} of its hypervolume up to {REFERENCE[0]}, {strict:.2%} up to its own worst"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
