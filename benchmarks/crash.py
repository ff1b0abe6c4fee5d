"""kill -9 of a random process during a replay: no job is lost, duplicated or stuck.

A complete instance on a small cluster replays a short trace over REST while the rebalancing loop
migrates containers as often as it can. In each round one process is killed at a random moment;
Berth must stop with a non-zero exit code and continue after the next start. At the end every job
must have ended and every check of `verify_replay` must pass.

    ./dev bench crash --rounds 12 --seed 2027
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg

from apps.testbed.core.generator import generate_day
from apps.testbed.core.traces import SwimTrace
from benchmarks._instance import RunningInstance

TRACE_S: Final = 3600.0  # jobs of a day arrive within an hour of cluster time
SPEED: Final = 300.0
END_TIMEOUT_S: Final = 90.0
PAUSE_S: Final = 1.5
DATABASE: Final = "postgres -D"
# text in the command lines of the processes to kill, in turn
VICTIMS: Final = (
    "--queues agents", "run_emulator", "gunicorn", "--queues placement", DATABASE,
)  # fmt: skip
WEIGHTS: Final = {"P": 1.0, "D": 0.5, "C": 0.5}
LOOP_SETTINGS: Final = {
    "mode": "automatic", "every_seconds": 60, "solve_seconds": 0.1, "youngest_seconds": 0,
    "moves_per_job": 100, "least_gain": 0, "migration": 0,
}  # fmt: skip


class CrashError(Exception):
    """A job was lost, duplicated or stuck."""


@dataclass(frozen=True, slots=True)
class CrashTest:
    """Numbers of kills, jobs and servers."""

    rounds: int = len(VICTIMS)
    jobs: int = 240
    servers: int = 60
    seed: int = 2027


def run_crash_test(plan: CrashTest) -> str:
    """Run the test and return the output of `verify_replay`.

    Raises
    ------
    CrashError : the instance outlived a kill, jobs did not end in time, or a check failed.
    InstanceError : the instance did not start again.
    """
    rng = np.random.default_rng(plan.seed)
    with tempfile.TemporaryDirectory(prefix="berth-crash-") as directory:
        trace = Path(directory) / "hour.tsv"
        trace.write_text(_swim_text(generate_day(plan.jobs, rng)))
        instance = RunningInstance(("--servers", str(plan.servers), "--speed", str(SPEED)))
        try:
            runs = False
            for turn in range(plan.rounds):
                if not runs:
                    instance.start("--trace", str(trace))
                if turn == 0:
                    _enable_migrations(instance)
                _await_progress(instance, plan.jobs * turn // (plan.rounds + 1) + 1)
                time.sleep(float(rng.uniform(0.0, PAUSE_S)))
                runs = _kill_process(instance, VICTIMS[turn % len(VICTIMS)])
            if not runs:
                instance.start("--trace", str(trace))
            _await_end(instance, plan.jobs)
            verified = instance.manage("verify_replay", "--trace", str(trace), "--complete")
            if verified.returncode != 0:
                raise CrashError(verified.stdout + verified.stderr)
            migrated = _count(instance, "SELECT count(*) FROM execution_migration")
            return f"{verified.stdout}{migrated} containers were migrated\n"
        finally:
            instance.discard()


def _enable_migrations(instance: RunningInstance) -> None:
    """Activate weights and let the loop migrate containers automatically."""
    body = {"name": "soak", "rule": "direct", "wanted": WEIGHTS}
    created, _ = _call(instance, "POST", "/preference-sets/", body)
    path = f"/preference-sets/{created['id']}/"
    _, tag = _call(instance, "GET", path)
    _call(instance, "POST", f"{path}activate/", {"message": "soak"}, tag)
    _call(instance, "PATCH", "/placement-loop/", LOOP_SETTINGS)


def _call(
    instance: RunningInstance, method: str, path: str, body: object = None, tag: str = ""
) -> tuple[dict[str, Any], str]:
    """Send a request; return the answer and its ETag."""
    headers = {
        "Authorization": f"Bearer {instance.variable('BERTH_TOKEN')}",
        "Content-Type": "application/json",
        **({"If-Match": tag} if tag else {}),
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - our own instance
        f"{instance.url}/api/v1{path}", method=method, data=data, headers=headers
    )
    with urllib.request.urlopen(request, timeout=30.0) as answer:  # noqa: S310
        return json.load(answer), answer.headers.get("ETag", "")


def _swim_text(trace: SwimTrace) -> str:
    columns = (
        trace.submit_s * TRACE_S / 86_400.0,
        # A terabyte job would outlast the test.
        np.minimum(trace.input_bytes, 2e9),
        np.minimum(trace.shuffle_bytes, 1e9),
        np.minimum(trace.output_bytes, 1e9),
    )
    return "".join(
        f"job{number}\t{at:.1f}\t0\t{read:.0f}\t{moved:.0f}\t{written:.0f}\n"
        for number, (at, read, moved, written) in enumerate(zip(*columns, strict=True))
    )


def _kill_process(instance: RunningInstance, text: str) -> bool:
    """Kill a process by the text in its command line; return True if the instance still runs.

    It must stop with an error if the database was killed, and start any other process again.
    """
    pids = _await_processes(instance, text, others_than=frozenset())
    os.kill(pids[0], signal.SIGKILL)
    if text != DATABASE:
        _await_processes(instance, text, others_than=frozenset(pids))
        return True
    if instance.await_end() == 0:
        raise CrashError(f"exit code 0 after kill -9 of the process {text!r}")
    return False


def _await_processes(
    instance: RunningInstance, text: str, *, others_than: frozenset[int]
) -> list[int]:
    """Return the ids of processes by the text in their command lines, when there are any."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while not (
        pids := [
            pid
            for pid, command in instance.children().items()
            if text in command and pid not in others_than
        ]
    ):
        if time.monotonic() > deadline:  # pages respond before the last process has started
            raise CrashError(f"no process {text!r}")
        time.sleep(0.05)
    return pids


def _await_progress(instance: RunningInstance, jobs: int) -> None:
    """Wait until the number of jobs has been submitted."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while _count(instance, "SELECT count(*) FROM workloads_job") < jobs:
        if time.monotonic() > deadline:
            raise CrashError(f"fewer than {jobs} jobs were submitted in {END_TIMEOUT_S:.0f} s")
        time.sleep(0.2)


def _await_end(instance: RunningInstance, jobs: int) -> None:
    """Wait until every job of the trace has been submitted and has ended."""
    query = (
        "SELECT count(*) FROM workloads_job WHERE labels ? 'trace'"
        " AND state IN ('succeeded', 'failed', 'cancelled')"
    )
    deadline = time.monotonic() + END_TIMEOUT_S
    while (ended := _count(instance, query)) < jobs:
        if time.monotonic() > deadline:
            raise CrashError(f"{ended} of {jobs} jobs ended in {END_TIMEOUT_S:.0f} s")
        time.sleep(0.5)


def _count(instance: RunningInstance, query: str) -> int:
    with psycopg.connect(instance.variable("DATABASE_URL")) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def main() -> int:
    """Run the test; return 0 if it passed."""
    defaults = CrashTest()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=defaults.jobs)
    parser.add_argument("--servers", type=int, default=defaults.servers)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    options = parser.parse_args()
    plan = CrashTest(options.rounds, options.jobs, options.servers, options.seed)
    began = time.monotonic()
    try:
        report = run_crash_test(plan)
    except CrashError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    elapsed_s = time.monotonic() - began
    sys.stdout.write(f"{report}{plan.rounds} kills in {elapsed_s:.0f} s, seed {plan.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
