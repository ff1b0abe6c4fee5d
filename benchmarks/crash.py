"""kill -9 of any process at any moment of a replay: nothing lost, doubled or stuck.

A whole instance on a small cluster, and a short trace submitted over REST, while the online loop
moves containers as fast as it may. In each round one of
its processes is killed at a moment drawn from the seed; Berth must stop with a non-zero exit code
and go on at the next start. At the end every job must have ended and every check of
`verify_replay` must hold.

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

TRACE_S: Final = 3600.0  # the day's jobs come within an hour of cluster time
SPEED: Final = 300.0
END_TIMEOUT_S: Final = 90.0
PAUSE_S: Final = 1.5
# words in the command lines of those who are killed, in turn
VICTIMS: Final = (
    "--queues agents", "run_emulator", "gunicorn", "--queues placement", "postgres -D",
)  # fmt: skip
WEIGHTS: Final = {"P": 1.0, "D": 0.5, "C": 0.5}
RESTLESS: Final = {
    "mode": "automatic", "every_seconds": 60, "solve_seconds": 0.1, "youngest_seconds": 0,
    "moves_per_job": 100, "least_gain": 0, "migration": 0,
}  # fmt: skip


class CrashError(Exception):
    """Something was lost, doubled or stuck."""


@dataclass(frozen=True, slots=True)
class Soak:
    """How many jobs, and how often somebody is killed while they come."""

    rounds: int = len(VICTIMS)
    jobs: int = 240
    servers: int = 60
    seed: int = 2027


def soak(plan: Soak) -> str:
    """Run it; what `verify_replay` printed.

    Raises
    ------
    CrashError : the instance outlived a kill, jobs did not end in time, or a check failed.
    InstanceError : it did not start again.
    """
    rng = np.random.default_rng(plan.seed)
    with tempfile.TemporaryDirectory(prefix="berth-crash-") as directory:
        trace = Path(directory) / "hour.tsv"
        trace.write_text(_swim_text(generate_day(plan.jobs, rng)))
        instance = RunningInstance(("--servers", str(plan.servers), "--speed", str(SPEED)))
        try:
            for turn in range(plan.rounds):
                instance.start("--trace", str(trace))
                if turn == 0:
                    _set_loose(instance)
                _await_progress(instance, plan.jobs * turn // (plan.rounds + 1) + 1)
                time.sleep(float(rng.uniform(0.0, PAUSE_S)))
                _kill_one(instance, VICTIMS[turn % len(VICTIMS)])
            instance.start("--trace", str(trace))
            _await_end(instance, plan.jobs)
            checked = instance.manage("verify_replay", "--trace", str(trace), "--complete")
            if checked.returncode != 0:
                raise CrashError(checked.stdout + checked.stderr)
            moved = _count(instance, "SELECT count(*) FROM execution_migration")
            return f"{checked.stdout}{moved} containers were sent to another server\n"
        finally:
            instance.discard()


def _set_loose(instance: RunningInstance) -> None:
    """Bring weights into force and let the loop move containers by itself."""
    wanted = {"name": "soak", "rule": "direct", "wanted": WEIGHTS}
    made, _ = _call(instance, "POST", "/preference-sets/", wanted)
    path = f"/preference-sets/{made['id']}/"
    _, tag = _call(instance, "GET", path)
    _call(instance, "POST", f"{path}activate/", {"message": "soak"}, tag)
    _call(instance, "PATCH", "/placement-loop/", RESTLESS)


def _call(
    instance: RunningInstance, method: str, path: str, body: object = None, tag: str = ""
) -> tuple[dict[str, Any], str]:
    """Ask the API; the answer and its tag."""
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
        # A terabyte job would outlast the soak.
        np.minimum(trace.input_bytes, 2e9),
        np.minimum(trace.shuffle_bytes, 1e9),
        np.minimum(trace.output_bytes, 1e9),
    )
    return "".join(
        f"job{number}\t{at:.1f}\t0\t{read:.0f}\t{moved:.0f}\t{written:.0f}\n"
        for number, (at, read, moved, written) in enumerate(zip(*columns, strict=True))
    )


def _kill_one(instance: RunningInstance, word: str) -> None:
    """Kill -9 the instance's own process with the word in its command; it must notice."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while not (found := [p for p, command in instance.children().items() if word in command]):
        if time.monotonic() > deadline:  # pages answer before the last process is started
            raise CrashError(f"there is no process {word!r} to kill")
        time.sleep(0.05)
    os.kill(found[0], signal.SIGKILL)
    if instance.await_end() == 0:
        raise CrashError(f"it ended with exit code 0 after kill -9 of the process {word!r}")


def _await_progress(instance: RunningInstance, jobs: int) -> None:
    """Wait until that many jobs were submitted."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while _count(instance, "SELECT count(*) FROM workloads_job") < jobs:
        if time.monotonic() > deadline:
            raise CrashError(f"fewer than {jobs} jobs were submitted in {END_TIMEOUT_S:.0f} s")
        time.sleep(0.2)


def _await_end(instance: RunningInstance, jobs: int) -> None:
    """Wait until every job of the trace is there and has ended."""
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
    """Run it; 0 when nothing was lost, doubled or stuck."""
    usual = Soak()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=usual.jobs)
    parser.add_argument("--servers", type=int, default=usual.servers)
    parser.add_argument("--seed", type=int, default=usual.seed)
    options = parser.parse_args()
    plan = Soak(options.rounds, options.jobs, options.servers, options.seed)
    began = time.monotonic()
    try:
        printed = soak(plan)
    except CrashError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    took_s = time.monotonic() - began
    sys.stdout.write(f"{printed}{plan.rounds} kills in {took_s:.0f} s, seed {plan.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
