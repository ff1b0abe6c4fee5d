"""The whole path: jobs submitted in bulk until they have ended, on an instance of its own."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._instance import RunningInstance
from benchmarks.placement_latency import Load, measured, rate_of, submit, warm

SPEED: Final = 60.0  # cluster seconds per wall second
DURATION_S: Final = 20.0  # of a job, cluster seconds
BATCH: Final = 2_000  # jobs in a request
BACKLOG: Final = 6_000  # jobs that have not ended, beyond which the client waits
PATIENCE_S: Final = 300.0
LEAD_IN_S: Final = 2.0  # of submissions before the measured ones
POLL_S: Final = 0.25
SETTLE_S: Final = 20.0  # after which every periodic task has run
LATENCY_LEAD_IN_S: Final = 5.0
PAUSE_S: Final = 5.0  # between two runs, in which the last jobs end

_JOBS: Final = """
SELECT coalesce(sum(jobs), 0) FROM (
    SELECT jobs FROM workloads_jobcount WHERE state = 'succeeded'
    UNION ALL SELECT change FROM workloads_jobcountchange WHERE state = 'succeeded') counted
"""


@dataclass(frozen=True, slots=True)
class PathResult:
    """What one run of the whole path took.

    Attributes
    ----------
    jobs : placed, committed and completed
    wall_s : from the first request to the last end
    cpu_s : CPU seconds by part; "this client" submits
    wal_bytes : written by PostgreSQL
    """

    jobs: int
    wall_s: float
    cpu_s: dict[str, float]
    wal_bytes: int

    @property
    def per_s(self) -> float:
        """Jobs per wall second."""
        return self.jobs / self.wall_s

    @property
    def cpu_us(self) -> dict[str, float]:
        """CPU microseconds for each job by part, the largest first."""
        parts = sorted(self.cpu_s.items(), key=lambda part: -part[1])
        return {name: 1e6 * seconds / self.jobs for name, seconds in parts}

    @property
    def per_core_s(self) -> float:
        """Jobs per CPU second of all processes: the rate that one whole core would sustain."""
        return self.jobs / sum(self.cpu_s.values())


def throughput(*, servers: int, seconds: float) -> PathResult:
    """Submit one-unit jobs in bulk for some seconds, and wait until all have ended.

    A first run of the same kind is not counted, so that no kernel is compiled meanwhile.
    """
    with _instance(servers) as instance, instance.client() as api:
        warm(api)
        with psycopg.connect(instance.database_url, autocommit=True) as database:
            _run(instance, api, database, LEAD_IN_S)  # compiles the kernels of all processes
            return _run(instance, api, database, seconds)


@dataclass(frozen=True, slots=True)
class LatencyRun:
    """Jobs submitted per second in one run, and their waits in ms."""

    rate: float
    waits_ms: NDArray[np.float64]


def latency(
    *, servers: int, rate: float, seconds: float, batches: Sequence[int], runs: int
) -> dict[int, list[LatencyRun]]:
    """Submit at a rate, in requests of several sizes in turn, on one instance.

    Before, its workers load what their periodic tasks need; jobs of a lead-in are placed before
    each run, and those of the run before have ended.

    Returns the runs by the number of jobs in a request.

    Raises
    ------
    SystemExit : some were not placed, so that the quantiles would leave out the longest waits.
    """
    found: dict[int, list[LatencyRun]] = {batch: [] for batch in batches}
    with _instance(servers) as instance, instance.client() as api:
        warm(api)
        time.sleep(SETTLE_S)
        first = 0
        for _ in range(runs):
            for batch in batches:
                lead_in = Load(rate, LATENCY_LEAD_IN_S, batch, first=first)
                submit(api, lead_in)
                load = Load(rate, seconds, batch, first=lead_in.jobs.stop + batch)
                sent = submit(api, load)
                waits_ms, _ = measured(instance.database_url, sent)
                if waits_ms.size < len(sent):
                    raise SystemExit(f"only {waits_ms.size} of {len(sent)} jobs were placed")
                found[batch].append(LatencyRun(rate_of(sent), waits_ms))
                first = load.jobs.stop + batch
                time.sleep(PAUSE_S)
    return found


class _instance(RunningInstance):  # noqa: N801 - used as a context manager
    """An instance without a replay, discarded at the end."""

    def __init__(self, servers: int) -> None:
        super().__init__(("--servers", str(servers), "--speed", str(SPEED), "--no-replay"))

    def __enter__(self) -> "_instance":
        from apps.placement.services.front import fronts  # noqa: PLC0415 - needs Django

        fronts.prepare_search()  # so that no worker compiles its kernels while others are measured
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    @property
    def database_url(self) -> str:
        return self.variable("DATABASE_URL")

    def client(self) -> ApiClient:
        return ApiClient(self.url, self.variable("BERTH_TOKEN"))


def _run(
    instance: RunningInstance,
    api: ApiClient,
    database: "psycopg.Connection[tuple[Any, ...]]",
    seconds: float,
) -> PathResult:
    before, wal = _ended(database), _wal(database)
    used, own_s, began = instance.cpu_seconds(), time.process_time(), time.monotonic()
    sent = ended = 0
    while ended < sent or time.monotonic() < began + seconds:
        if time.monotonic() > began + seconds + PATIENCE_S:
            raise SystemExit(f"only {ended} of {sent} jobs ended")
        if sent - ended <= BACKLOG - BATCH and time.monotonic() < began + seconds:
            items = [_spec(number) for number in range(sent, sent + BATCH)]
            reply = api.post("/api/v1/batches/", {"items": items}, key=f"bulk-{began}-{sent}")
            if not reply.is_good:
                raise SystemExit(f"a batch was refused: {reply.problem}")
            sent += BATCH
        else:
            time.sleep(POLL_S)
        ended = _ended(database) - before
    wall_s = time.monotonic() - began
    cpu_s = {name: s - used[name] for name, s in instance.cpu_seconds().items()}
    cpu_s["this client"] = time.process_time() - own_s
    return PathResult(ended, wall_s, cpu_s, _wal(database) - wal)


def _spec(number: int) -> dict[str, Any]:
    return {
        "application": f"bench-{number % 4}",
        "application_kind": "batch",
        "target": {"kind": "best_effort"},
        "duration_seconds": DURATION_S,
        "units": 1,
    }


def _ended(database: "psycopg.Connection[tuple[Any, ...]]") -> int:
    row = database.execute(_JOBS).fetchone()
    return int(row[0]) if row else 0


def _wal(database: "psycopg.Connection[tuple[Any, ...]]") -> int:
    row = database.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0
