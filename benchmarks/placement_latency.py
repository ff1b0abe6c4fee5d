"""Latency from submission to placement: p99 at 200 jobs/s on 6,000 servers.

Starts its own instance (web, agents, emulator, PostgreSQL, Valkey, all on this machine), profiles
the applications, then submits one-unit jobs over REST at a constant rate. Decisions store the
waiting time of each job: wall seconds from the submitting transaction to the commit of its units.
Also prints the latency measured by the client, from before the request to the commit.

    ./dev bench placement_latency --rate 200 --seconds 30 --servers 6000
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import RunningInstance

TARGET_MS: Final = 250.0
WARM_TIMEOUT_S: Final = 120.0
DRAIN_TIMEOUT_S: Final = 60.0
BLOCK_BYTES: Final = 128 * 2**20
CLIENTS: Final = 8  # that submit in turn: one would wait for its replies, and fall behind


@dataclass(frozen=True, slots=True)
class Load:
    """Load: ``rate`` jobs per second for ``seconds``, in requests of ``batch`` jobs.

    Jobs are numbered from ``first``.
    """

    rate: float
    seconds: float
    batch: int
    first: int = 0

    @property
    def jobs(self) -> range:
        """Return the numbers of the jobs."""
        return range(self.first, self.first + int(self.rate * self.seconds))


def main() -> int:
    """Run the benchmark; return 0 if the target is met."""
    options = _options()
    load = Load(options.rate, options.seconds, options.batch)
    before_ms = calibrate()
    instance = RunningInstance(
        ("--servers", str(options.servers), "--speed", str(options.speed), "--no-replay")
    )
    try:
        instance.start()
        with ApiClient(instance.url, instance.variable("BERTH_TOKEN")) as api:
            warm(api)
            used, own_s = instance.cpu_seconds(), time.process_time()
            sent = submit(api, load)
            own_s = time.process_time() - own_s
            used = {name: s - used[name] for name, s in instance.cpu_seconds().items()}
        waits_ms, client_ms = measured(instance.variable("DATABASE_URL"), sent)
    finally:
        instance.discard()
    after_ms = calibrate()
    _print(f"{options.servers:,} servers, {load.rate:g} jobs/s for {load.seconds:g} s")
    _print(f"{len(sent):,} jobs submitted at {rate_of(sent):.0f}/s, {waits_ms.size:,} placed")
    _print(_quantiles("submit to placed", waits_ms))
    _print(_quantiles("measured by the client", client_ms))
    parts = sorted({**used, "this client": own_s}.items(), key=lambda part: -part[1])
    shares = ", ".join(f"{name} {seconds / load.seconds:.0%}" for name, seconds in parts)
    _print(f"share of a core while submitting: {shares}")
    _print(calibration_line(before_ms, after_ms))
    is_met = waits_ms.size == len(sent) and float(np.percentile(waits_ms, 99)) <= TARGET_MS
    _print(f"target p99 {TARGET_MS:.0f} ms: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=200.0, help="jobs per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--batch", type=int, default=4, help="jobs per request")
    parser.add_argument("--servers", type=int, default=6000)
    parser.add_argument("--speed", type=float, default=60.0)
    return parser.parse_args()


def _spec(number: int) -> dict[str, Any]:
    return {
        "application": f"bench-{number % 4}",
        "application_kind": "batch",
        "target": {"kind": "best_effort"},
        "input_bytes": BLOCK_BYTES,
        "tasks": 1,
        "units": 1,
        "labels": {"bench": "placement"},
    }


def warm(api: ApiClient) -> None:
    """Profile every application, so that no measured job waits for profiling."""
    for number in range(4):
        reply = api.post("/api/v1/jobs/", _spec(number), key=f"warm-{number}")
        if not reply.is_good:
            raise SystemExit(f"the warm-up job was refused: {reply.problem}")
    deadline = time.monotonic() + WARM_TIMEOUT_S
    waiting = "/api/v1/jobs/?state__in=submitted,profiling,queued&limit=1&count=exact"
    while api.get(waiting).body["count"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"the applications were not profiled within {WARM_TIMEOUT_S:.0f} s")
        time.sleep(0.2)


def submit(api: ApiClient, load: Load) -> dict[str, float]:
    """Submit jobs at the rate; return the wall time before the request by client id.

    Each client sends every `CLIENTS`-th batch at its time, over a connection of its own.
    """
    began = time.time()

    def send(client: int) -> dict[str, float]:
        sent: dict[str, float] = {}
        with ApiClient(api.url, api.token) as own:
            for first in load.jobs[client * load.batch :: load.batch * CLIENTS]:
                at_s = began + (first - load.first) / load.rate
                time.sleep(max(0.0, at_s - time.time()))
                sent |= _send_batch(own, first, load.batch)
        return sent

    with ThreadPoolExecutor(CLIENTS) as pool:
        return {job: at_s for sent in pool.map(send, range(CLIENTS)) for job, at_s in sent.items()}


def _send_batch(api: ApiClient, first: int, size: int) -> dict[str, float]:
    numbers = range(first, first + size)
    items = [{**_spec(number), "annotations": {"bench_id": f"b{number}"}} for number in numbers]
    now = time.time()
    reply = api.post("/api/v1/batches/", {"items": items}, key=f"batch-{first}")
    if not reply.is_good:
        raise SystemExit(f"a batch was refused: {reply.problem}")
    return dict.fromkeys((f"b{number}" for number in numbers), now)


def rate_of(sent: dict[str, float]) -> float:
    """Return the jobs per second that were really submitted."""
    return len(sent) / max(max(sent.values()) - min(sent.values()), 1e-9)


def measured(
    database_url: str, sent: dict[str, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the latencies in milliseconds, by the decisions and by the client's clock."""
    query = (
        "SELECT j.annotations->>'bench_id', min(d.waited_s), extract(epoch FROM min(d.at))"
        " FROM scheduling_decision d JOIN workloads_job j ON j.id = d.job_id"
        " WHERE d.outcome = 'placed' AND j.annotations ? 'bench_id' GROUP BY j.id"
    )
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    with psycopg.connect(database_url, autocommit=True) as connection:
        while True:
            rows = [row for row in connection.execute(query) if row[0] in sent]
            if len(rows) >= len(sent) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
    waits = np.array([float(row[1]) for row in rows]) * 1e3
    client = np.array([float(row[2]) - sent[row[0]] for row in rows]) * 1e3
    return waits, client


def _quantiles(label: str, values_ms: NDArray[np.float64]) -> str:
    if not values_ms.size:
        return f"{label}: nothing was placed"
    p50, p95, p99 = np.percentile(values_ms, (50, 95, 99))
    return f"{label}: p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
