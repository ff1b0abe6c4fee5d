"""Delay of a job that Berth places in Slurm, over plain `sbatch`; and submissions per second.

Starts its own instance and a Slurm of six nodes on this machine, as root. A job writes when its
script starts. Plain jobs go to a partition that the hook leaves to Slurm, and alternate with those
that it holds for Berth; both are submitted one after the other, so that a job never waits for
cores. Then many jobs are submitted at once by some clients.

    ./dev bench slurm --jobs 40 --burst 200 --clients 4
"""

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import psycopg

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import PROJECT, RunningInstance
from tests.execution.slurm.cluster import SlurmCluster

MORE_S: Final = 0.3  # at most, in the median
RATE: Final = 80.0  # submissions per second, at least
TIMEOUT_S: Final = 120.0
HOOK: Final = PROJECT / "deploy/slurm/job_submit.lua"
PLAIN, HELD = "urgent", "main"


def main() -> int:
    """Run the benchmark; return 0 if both targets are met."""
    options = _options()
    before_ms = calibrate()
    work = Path(tempfile.mkdtemp(prefix="berth-slurm."))
    work.chmod(0o755)
    hook = HOOK.read_text().replace("PARTITIONS = nil", "PARTITIONS = {main = true}")
    slurm = SlurmCluster(work, hook)
    instance = RunningInstance(("--empty", "--speed", "1"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        stack.callback(slurm.stop)
        slurm.start()
        stack.callback(instance.discard)
        instance.start()
        _await_clock(slurm, instance.variable("DATABASE_URL"))
        stack.enter_context(_backend(slurm, instance))
        delays = _delays(slurm, options.jobs)
        parts = _parts(instance.variable("DATABASE_URL"))
        slurm.clear()
        rate, drained_s = _burst(slurm, options.burst, options.clients)
    plain, held = (np.array(delays[partition]) for partition in (PLAIN, HELD))
    more_s = float(np.median(held) - np.median(plain))
    _print(f"submit to start, plain sbatch: {_quantiles(plain)}")
    _print(f"submit to start, placed by Berth: {_quantiles(held)}")
    _print(f"of these, medians: {parts}")
    is_quick = more_s <= MORE_S
    _print(f"more in the median: {more_s:.2f} s (at most {MORE_S}: {_verdict(is_quick)})")
    is_fast = rate >= RATE
    _print(
        f"{options.burst} jobs by {options.clients} clients: {rate:.0f} submissions/s"
        f" (at least {RATE:.0f}: {_verdict(is_fast)}); all over after {drained_s:.1f} s"
    )
    _print(calibration_line(before_ms, calibrate()))
    return 0 if is_quick and is_fast else 1


def _await_clock(slurm: SlurmCluster, address: str) -> None:
    """Wait until the clock of the cluster runs, without which the backend does not start."""
    with psycopg.connect(address, autocommit=True) as database:

        def runs() -> bool:
            return database.execute("SELECT FROM inventory_cluster WHERE speed > 0").rowcount > 0

        slurm.until(runs, "the clock of the cluster runs", limit_s=TIMEOUT_S)


@contextlib.contextmanager
def _backend(slurm: SlurmCluster, instance: RunningInstance) -> Iterator[None]:
    """Run the backend of Slurm until the block ends."""
    environment = {
        **instance.environment,
        **{name: instance.variable(name) for name in ("DATABASE_URL", "REDIS_URL")},
        **slurm.environment,
    }
    with (slurm.work / "log/backend.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "run_slurm"],
            cwd=PROJECT, env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _delays(slurm: SlurmCluster, jobs: int) -> dict[str, list[float]]:
    """Return the seconds from before `sbatch` to the first line of the script, by partition."""
    found: dict[str, list[float]] = {PLAIN: [], HELD: []}
    for number in range(2 * (jobs + 1)):
        partition = (PLAIN, HELD)[number % 2]
        started = slurm.work / f"started-{number}"
        begun_s = time.time()
        slurm.sbatch(f"date +%s.%N > {started}.new; mv {started}.new {started}", "-p", partition)
        slurm.until(started.exists, f"a job of {partition} starts", limit_s=TIMEOUT_S)
        if number >= 2:  # the first of each waits until the backend has started
            found[partition].append(float(started.read_text()) - begun_s)
    return found


_PARTS: Final = """
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM j.placed_at - j.created_at)),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM l.created_at - j.placed_at))
FROM execution_slurmjob s JOIN workloads_job j ON j.id = s.job_id
JOIN execution_launch l ON l.job_id = j.id
"""


def _parts(address: str) -> str:
    """Return how long the jobs took from one side of Berth to the other."""
    with psycopg.connect(address) as database:
        ((placing_s, launching_s),) = database.execute(_PARTS).fetchall()
    return (
        f"{placing_s:.3f} s from Berth's submission to its decision,"
        f" {launching_s:.3f} s to the release"
    )


def _burst(slurm: SlurmCluster, jobs: int, clients: int) -> tuple[float, float]:
    """Submit many jobs; returns submissions per second, and seconds until all have ended."""
    ended = slurm.work / "ended"
    ended.mkdir()
    begun_s = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda n: slurm.sbatch(f"touch {ended}/{n}", "-p", HELD), range(jobs)))
    rate = jobs / (time.monotonic() - begun_s)
    slurm.until(lambda: len(list(ended.iterdir())) == jobs, "all have ended", limit_s=TIMEOUT_S)
    return rate, time.monotonic() - begun_s


def _quantiles(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    p50, p95 = np.percentile(seconds, [50, 95])
    return f"p50 {p50:.2f} s, p95 {p95:.2f} s (n = {seconds.size})"


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40, help="of each kind, one after the other")
    parser.add_argument("--burst", type=int, default=200, help="jobs submitted at once")
    parser.add_argument("--clients", type=int, default=4)
    return parser.parse_args()


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
