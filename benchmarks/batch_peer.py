"""Compare the batch queues with AccaSim on the same log: the wait of every job.

The log is stretched to several loads, and both simulators read the same file. Jobs run for at
least one second, because AccaSim frees the processors of jobs of no length too late. AccaSim is
installed from PyPI into an environment of its own in the instance's directory.

    ./dev bench batch_peer --swf FILE --loads 0.5,0.6,0.7
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.batch.pool import Discipline, run_pool
from apps.testbed.core.swf import at_load
from apps.testbed.core.traces import Floats
from apps.testbed.files import read_swf
from benchmarks._results import RESULTS, markdown, store
from controlplane.embedded.instance import InstanceDirectory

VERSION: Final = "1.1.3"
RUNNER: Final = Path(__file__).with_name("_accasim.py")
PEERS: Final = {
    "FIFO": ("fifo", Discipline.FCFS),
    "EASY": ("easy", Discipline.EASY),
    "EASY, reservation kept": ("easy_kept", Discipline.EASY),
}
HEADER: Final = ["load", "scheduler of AccaSim", "its mean wait", "ours", "jobs with equal wait"]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PeerError(Exception):
    """AccaSim cannot be installed or does not run."""


def main() -> int:
    """Run the benchmark; return 0 unless waits that must be equal differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--swf", type=Path, required=True, help="log in the Standard Workload Format"
    )
    parser.add_argument("--loads", default="0.5,0.6,0.7")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    trace = read_swf(options.swf)
    loads = [float(load) for load in options.loads.split(",")]
    table, seconds, is_equal = [HEADER], [], True
    try:
        python = environment(InstanceDirectory.here().home / "accasim")
        for load in loads:
            jobs = whole_seconds(at_load(trace.jobs, trace.processors, load))
            for name, (peer, discipline) in PEERS.items():
                began = time.perf_counter()
                theirs = run_accasim(python, jobs, trace.processors, peer)
                seconds.append(round(time.perf_counter() - began, 1))
                ours = run_pool(jobs, trace.processors, discipline).wait_s
                table.append(compare(load, name, theirs, ours))
                is_equal &= peer == "easy" or bool((theirs == ours).all())
    except PeerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{markdown(table)}\n")
    chosen = {"log": options.swf.name, "loads": loads, "accasim": VERSION}
    figures = {"jobs": len(trace.jobs), "accasim_seconds": seconds}
    tables = {"accasim": table}
    store("batch_peer", arguments=chosen, figures=figures, tables=tables, folder=options.results)
    return 0 if is_equal else 1


def environment(home: Path) -> Path:
    """Return the Python of an environment with AccaSim, created at the first call.

    Raises
    ------
    PeerError : it cannot be created; holds the last line of the installer.
    """
    python = home / "bin" / "python"
    if (home / "installed").exists():
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(home)])
    _run([str(python), "-m", "pip", "install", "--quiet", f"accasim=={VERSION}"])
    (home / "installed").touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise PeerError(f"AccaSim {VERSION} does not run here: {last[0]}")


def whole_seconds(jobs: ParallelJobs) -> ParallelJobs:
    """Return the jobs with times in whole seconds, and run times of at least one."""
    seconds = np.maximum(1.0, np.round(jobs.seconds))
    return replace(
        jobs,
        submit_s=np.round(jobs.submit_s),
        seconds=seconds,
        estimate_s=np.maximum(seconds, np.round(jobs.estimate_s)),
    )


def run_accasim(python: Path, jobs: ParallelJobs, processors: int, peer: str) -> Floats:
    """(n,) seconds that each job waits in AccaSim.

    Raises
    ------
    PeerError : AccaSim fails, or leaves a job out.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.swf"
        log.write_text("".join(f"{line}\n" for line in swf_lines(jobs)))
        _run([str(python), str(RUNNER), str(log), str(processors), peer, folder])
        with (Path(folder) / f"sched-{log.name}").open() as lines:
            started = read_starts(lines, len(jobs))
    missing = int(np.isnan(started).sum())
    if missing:
        raise PeerError(f"AccaSim {VERSION} did not start {missing} of {len(jobs)} jobs.")
    return started - jobs.submit_s


def swf_lines(jobs: ParallelJobs) -> Iterable[str]:
    """Yield a line of 18 fields for each job; AccaSim needs a memory above 0."""
    for job in range(len(jobs)):
        width = jobs.processors[job]
        yield (
            f"{job + 1} {jobs.submit_s[job]:.0f} -1 {jobs.seconds[job]:.0f} {width} -1 -1 {width}"
            f" {jobs.estimate_s[job]:.0f} 1 1 -1 -1 -1 -1 -1 -1 -1"
        )


def read_starts(lines: Iterable[str], jobs: int) -> Floats:
    """(n,) start of each job in a schedule of AccaSim; NaN if it has none.

    A line is `JOB;user;submitted__nodes__STARTED;ended;...`, with times as dates from 1970 on.
    """
    started = np.full(jobs, np.nan)
    for line in lines:
        job, _, times = line.split("__")
        begun = datetime.strptime(times.split(";")[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        started[int(job.split(";")[0]) - 1] = (begun - EPOCH).total_seconds()
    return started


def compare(load: float, name: str, theirs: Floats, ours: Floats) -> list[str]:
    """Return a row of the table: mean waits, and the share of jobs with equal waits."""
    equal = 100.0 * float((theirs == ours).mean())
    return [
        f"{load:g}",
        name,
        f"{theirs.mean():,.1f} s",
        f"{ours.mean():,.1f} s",
        f"{equal:.1f} %",
    ]


if __name__ == "__main__":
    sys.exit(main())
