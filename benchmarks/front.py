"""How good a front is after ten seconds, and how fast generations are, beside pymoo's NSGA-II.

    ./dev bench front [--only plain,real] [--budget 10] [--peer 60] [--seed 0]

plain: identical nodes, intensities 0 and 1, where the exact front is known. rules: NSGA-II begins
with rules of thumb alone; whole: everything `berth front` does. real: intensities of any size and
two kinds of nodes. Shares are of hypervolume up to (1.1, 1.1, 1.1), and, stricter, up to a tenth
beyond the exact front's own worst values.
"""

import argparse
import statistics
import sys
import time
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.front import REFERENCE, Front, hypervolume, losses, scales
from apps.placement.core.front_counts import counts_front
from apps.placement.core.front_search import find_front, prepare
from apps.placement.core.instance import Instance
from apps.placement.core.nsga2 import POPULATION, Search
from apps.placement.core.starts import by_rule
from benchmarks import _pymoo
from benchmarks._calibration import calibrate, calibration_line

PLAIN: Final = {
    "HPC 100": Draw(100),
    "Hadoop 600": Draw(600, nodes_per_rack=40, mix=Mix.HADOOP),
    "HPC 1,024": Draw(),
}
REAL: Final = {
    "HPC 100": Draw(100, nodes_per_rack=16, has_real_intensities=True, kinds=2),
    "Hadoop 600": Draw(600, nodes_per_rack=40, mix=Mix.HADOOP, has_real_intensities=True, kinds=2),
    "HPC 1,024": Draw(has_real_intensities=True, kinds=2),
}
TIMED: Final = 15  # repetitions of what takes milliseconds
TURNS: Final = 3  # of both, one after the other, where generations are timed
TURN_S: Final = 2.0


def main() -> int:
    """Print what each way reaches."""
    parser = argparse.ArgumentParser(prog="benchmarks.front", description=__doc__)
    parser.add_argument("--only", default="plain,real")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--peer", type=float, default=60.0, help="seconds for pymoo")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before_ms = calibrate()
    if not _pymoo.is_there():
        _say(_pymoo.ABSENT)
    if "plain" in options.only:
        for name, wanted in PLAIN.items():
            _plain(name, draw(wanted, options.seed), options.budget)
    if "real" in options.only:
        for name, wanted in REAL.items():
            _real(name, draw(wanted, options.seed), options.budget, options.peer)
    _say(calibration_line(before_ms, calibrate()))
    return 0


def _plain(name: str, instance: Instance, budget_s: float) -> None:
    prepare(instance)
    counts = counts_front(instance)
    if counts is None:
        raise RuntimeError(f"{name} is not plain")
    took = statistics.median(_timed(instance) for _ in range(TIMED))
    exact = losses(counts.raw / scales(instance))
    _say(f"{name:<11} exact front of counts: {len(exact)} points in {took * 1e3:.2f} ms")
    search = Search(instance, by_rule(instance), clock=time.perf_counter)
    search.run(budget_s)
    found = search.archive.losses[: search.archive.size]
    _say(f"{name:<11} rules: {_shares(found, exact)} after {search.seconds:.1f} s")
    front = find_front(instance, clock=time.perf_counter, budget_s=budget_s)
    proven = "proven" if front.is_exact else "not proven"
    _say(
        f"{name:<11} whole: {_shares(_points(front), exact)} after {front.seconds:.2f} s, {proven}"
    )
    _speed(name, instance)


def _real(name: str, instance: Instance, budget_s: float, peer_s: float) -> None:
    prepare(instance)
    search = Search(instance, by_rule(instance), clock=time.perf_counter)
    search.run(budget_s)
    _say(f"{name:<11} real, rules: {search.archive.hypervolume():.4f} after {budget_s:.0f} s")
    front = find_front(instance, clock=time.perf_counter, budget_s=budget_s)
    _say(f"{name:<11} real, whole: {front.hypervolume:.4f} after {front.seconds:.1f} s")
    if _pymoo.is_there():
        peer = _pymoo.run(instance, peer_s, size=POPULATION, seed=1)
        _say(f"{name:<11} real, pymoo: {peer.hypervolume:.4f} after {peer.seconds:.0f} s")
    _speed(f"{name}, real", instance)


def _speed(name: str, instance: Instance) -> None:
    """Time generations, ours and pymoo's in turn."""
    search = Search(instance, by_rule(instance), clock=time.perf_counter)
    ours, theirs = [], []
    for _ in range(TURNS):
        began, before = time.perf_counter(), search.generations
        search.run(search.seconds + TURN_S)
        ours.append((time.perf_counter() - began) / (search.generations - before))
        if _pymoo.is_there():
            peer = _pymoo.run(instance, TURN_S, size=POPULATION, seed=1)
            theirs.append(peer.seconds / peer.generations)
    each = statistics.median(ours)
    line = f"{name:<11} {each * 1e3:.2f} ms a generation of {POPULATION}"
    if theirs:
        peer_s = statistics.median(theirs)
        line += f"; pymoo {peer_s * 1e3:.1f} ms, {peer_s / each:.0f} times as long"
    _say(line)


def _timed(instance: Instance) -> float:
    began = time.perf_counter()
    counts_front(instance)
    return time.perf_counter() - began


def _points(front: Front) -> Floats:
    return losses(front.normalised)


def _shares(found: Floats, exact: Floats) -> str:
    worst, best = exact.max(axis=0), exact.min(axis=0)
    p, d, c = np.maximum(worst + 0.1 * (worst - best), worst + 1e-6).tolist()
    wide = hypervolume(found) / hypervolume(exact)
    strict = hypervolume(found, (p, d, c)) / hypervolume(exact, (p, d, c))
    return f"{wide:.2%} of its hypervolume up to {REFERENCE[0]}, {strict:.2%} up to its own worst"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
