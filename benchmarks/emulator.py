"""Share of a CPU core that the emulation engine needs, for servers of the demo platforms at 60x.

python -m benchmarks.emulator [--servers 100,1000,6000] [--seconds 30] [--speed 60] [--json]

The engine advances in ticks of 100 ms of wall time as in the live emulator, but without waiting
between ticks. Its CPU time is divided by the wall time that the ticks represent. One-unit jobs
keep the cluster at the load, so that every start and every end affects a different server: the
worst case for the engine. The extra cost of PostgreSQL is measured with the running system
(docs/emulation.md).
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.emulation.core.truth import Truth
from apps.testbed.core.demo_cluster import demo_cluster

TICK_S = 0.1
JOBS_REPORT_S = 1.0
SERVERS_REPORT_S = 1.0
MEAN_WORK_S = 300.0
APPLICATIONS = 60
CALIBRATION_ROUNDS = 2_000_000


@dataclass(frozen=True, slots=True)
class EngineResult:
    """Figures of one cluster size."""

    servers: int
    units: int
    jobs: int
    speed: float
    events_per_s: float  # per second of the wall time that the ticks represent
    core_share: float
    engine_events_per_cpu_s: float


def calibration_s() -> float:
    """Return the wall seconds of a fixed loop; nearly constant on an idle machine."""
    started, total = time.perf_counter(), 0
    for i in range(CALIBRATION_ROUNDS):
        total += i & 7
    return time.perf_counter() - started


def order(key: int, server: int, library: list[Truth], rng: np.random.Generator) -> EngineOrder:
    """Return an order for one unit on one server for some minutes."""
    truth = library[int(rng.integers(len(library)))]
    return EngineOrder(key, truth, [(server, 1)], work_s=float(rng.exponential(MEAN_WORK_S)) + 1.0)


def measure(servers: int, *, speed: float, seconds: float, load: float) -> EngineResult:
    """Fill the cluster to the load, then run the ticks of `seconds` of wall time."""
    world = demo_cluster(servers, seed=1)
    rng = np.random.default_rng(2)
    engine = Engine(world.machines, np.random.default_rng(3))
    library = [
        application_truth(1, f"bench-{i}", KINDS[i % 4], world.machines.platforms)
        for i in range(APPLICATIONS)
    ]
    units = int(world.machines.units.sum())
    homes = rng.permutation(np.repeat(np.arange(servers), world.machines.units))
    jobs = int(load * units)
    engine.start([order(i, int(homes[i]), library, rng) for i in range(jobs)], 0.0)
    serial, events, busy_s = jobs, 0, 0.0
    for tick in range(int(seconds / TICK_S)):
        now = (tick + 1) * TICK_S * speed
        started = time.process_time()
        emitted = engine.advance(now)
        busy_s += time.process_time() - started
        ended = sum(event.kind is EventKind.FINISHED for event in emitted)
        free = np.flatnonzero(engine.used_units < world.machines.units)
        chosen = rng.choice(free, size=min(ended, len(free)), replace=False)
        orders = [order(serial + i, int(s), library, rng) for i, s in enumerate(chosen)]
        serial += len(orders)
        events += len(emitted) + len(orders)
        started = time.process_time()
        engine.start(orders, now)
        if tick % round(JOBS_REPORT_S / TICK_S) == 0:
            engine.jobs()
        if tick % round(SERVERS_REPORT_S / TICK_S) == 0:
            engine.servers()
        busy_s += time.process_time() - started
    return EngineResult(
        servers=servers,
        units=units,
        jobs=jobs,
        speed=speed,
        events_per_s=events / seconds,
        core_share=busy_s / seconds,
        engine_events_per_cpu_s=events / busy_s,
    )


def main() -> int:
    """Measure every size and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--servers", default="100,1000,6000")
    parser.add_argument("--seconds", type=float, default=30.0, help="wall time for each size")
    parser.add_argument("--speed", type=float, default=60.0)
    parser.add_argument("--load", type=float, default=0.75)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = calibration_s()
    sizes = [int(size) for size in options.servers.split(",")]
    measure(sizes[0], speed=options.speed, seconds=1.0, load=options.load)  # compiles the kernels
    results = [
        measure(size, speed=options.speed, seconds=options.seconds, load=options.load)
        for size in sizes
    ]
    after = calibration_s()
    if options.json:
        rows = [asdict(result) for result in results]
        sys.stdout.write(json.dumps({"calibration_s": [before, after], "results": rows}) + "\n")
        return 0
    lines = [f"calibration loop {before:.3f} s before, {after:.3f} s after", ""]
    lines.append(
        f"{'servers':>8} {'units':>7} {'jobs':>7} {'events/s':>9} {'core':>7} {'max events/s':>13}"
    )
    lines += [
        f"{r.servers:>8,} {r.units:>7,} {r.jobs:>7,} {r.events_per_s:>9,.0f} "
        f"{r.core_share:>7.1%} {r.engine_events_per_cpu_s:>13,.0f}"
        for r in results
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
