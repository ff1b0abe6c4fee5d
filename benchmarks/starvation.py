"""Ordinary jobs during a flood of jobs that cannot be placed; a long queue on a full cluster.

    ./dev bench starvation [--jobs 20000] [--shapes 200] [--differ inputs|labels] [--servers 600]
                           [--seconds 30] [--rounds 1] [--without-full]

Starts its own instance. Two ordinary one-unit jobs a second are submitted for a while; then again
while 20,000 jobs are submitted by the same user in the same project that require a label no server
has; in turn, ``--rounds`` times. Printed: wall seconds from the submission of the ordinary jobs to
their start and until every job of the flood was evaluated, and the history frames stored
meanwhile. Then jobs that do not end fill all units, and as many jobs of other requests are
submitted again: wall seconds until each of them was evaluated once. ``--shapes`` is the number of
different requests among the jobs of a flood, which differ in their inputs or in the label. Stores
the result.
"""

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import psycopg
from numpy.typing import NDArray

from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import RunningInstance
from benchmarks._results import Table, store

RATIO: Final = 2.0  # goal: median start of ordinary jobs during the flood, relative to usual
EVERY_S: Final = 0.5  # between ordinary jobs
AT_ONCE: Final = 10_000  # jobs per request
TIMEOUT_S: Final = 900.0
MEBIBYTE: Final = 2**20
ENDLESS: Final = 2**50


def main() -> int:
    """Run the benchmark; return 0 if ordinary jobs start within twice their usual time."""
    options = _options()
    before_ms = calibrate()
    instance = RunningInstance(("--servers", str(options.servers), "--speed", "60", "--no-replay"))
    try:
        instance.start()
        rounds, full_s = _measure(instance, options)
    finally:
        instance.discard()
    after_ms = calibrate()
    _print(calibration_line(before_ms, after_ms))
    store(
        f"starvation-{options.shapes}-{options.differ}",
        arguments=vars(options),
        figures=[asdict(each) for each in rounds],
        tables={"flood": table(rounds, full_s, (before_ms, after_ms))},
    )
    ratio = float(np.median([each.ratio for each in rounds]))
    is_met = ratio <= RATIO
    _print(f"ratio of the medians {ratio:.2f}, goal {RATIO:g}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


@dataclass(frozen=True, slots=True)
class FloodRound:
    """One round: wall seconds from submission to start of ordinary jobs, alone and in the flood.

    Attributes
    ----------
    evaluated_s : until every job of the flood was evaluated
    """

    usual_s: list[float]
    during_s: list[float]
    evaluated_s: float

    @property
    def ratio(self) -> float:
        """Ratio of the medians."""
        return float(np.median(self.during_s) / np.median(self.usual_s))

    @property
    def ratio_95(self) -> float:
        """Ratio of the 95th percentiles."""
        return float(np.percentile(self.during_s, 95) / np.percentile(self.usual_s, 95))


def table(
    rounds: Sequence[FloodRound], full_s: float | None, calibration_ms: tuple[float, float]
) -> Table:
    """Return the published table: one column per round."""

    def starts(seconds: list[float]) -> str:
        return ", ".join(f"{value:.2f}" for value in np.percentile(seconds, (50, 95, 100)))

    shown = [
        ["", *(f"round {number}" for number in range(1, len(rounds) + 1))],
        ["start alone: p50, p95, slowest, s", *(starts(each.usual_s) for each in rounds)],
        ["start in the flood, s", *(starts(each.during_s) for each in rounds)],
        [f"ratio of the medians (goal: {RATIO:g})", *(f"{each.ratio:.2f}" for each in rounds)],
        ["ratio of p95", *(f"{each.ratio_95:.2f}" for each in rounds)],
        ["every job of the flood evaluated, s", *(f"{each.evaluated_s:.1f}" for each in rounds)],
    ]
    if full_s is not None:
        shown.append(["full cluster: every job evaluated, s", *[f"{full_s:.1f}"] * len(rounds)])
    calibration = " and ".join(f"{value:.0f}" for value in calibration_ms)
    shown.append(["calibration loop before and after, ms", *[calibration] * len(rounds)])
    return shown


def _measure(
    instance: RunningInstance, options: argparse.Namespace
) -> tuple[list[FloodRound], float | None]:
    """Run all rounds and print them; return them, and the seconds of the full cluster."""
    rounds: list[FloodRound] = []
    full_s = None
    with (
        ApiClient(instance.url, instance.variable("BERTH_TOKEN")) as api,
        psycopg.connect(instance.variable("DATABASE_URL"), autocommit=True) as database,
    ):
        _print(
            f"{options.servers:,} servers, {options.jobs:,} jobs of {options.shapes:,} requests"
            f" that differ in their {options.differ}"
        )
        _warm(api, database)
        for number in range(options.rounds):
            usual_s = _starts(database, _ordinary(api, f"usual-{number}", options.seconds))
            began_s = _newest_frame(database)
            during_s, evaluated_s = _during_flood(instance, api, database, options, number)
            rounds.append(FloodRound(usual_s.tolist(), during_s.tolist(), evaluated_s))
            _print(_quantiles("ordinary jobs, submit to start", usual_s))
            _print(_quantiles("the same during the flood", during_s))
            seconds = ", ".join(f"{each:.1f}" for each in during_s)
            _print(f"each of them, one each {EVERY_S:g} s: {seconds} s")
            _print(
                f"ratio of the medians {rounds[-1].ratio:.2f}, of p95 {rounds[-1].ratio_95:.2f}"
            )
            _print(f"every job of the flood evaluated {evaluated_s:.1f} s after it was accepted")
            _print(_frames_since(database, began_s))
        if not options.without_full:
            full_s = _full_cluster(api, database, options)
            _print(f"full cluster: every job evaluated {full_s:.1f} s after it was accepted")
    return rounds, full_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--shapes", type=int, default=200, help="different requests of a flood")
    parser.add_argument("--differ", choices=("inputs", "labels"), default="inputs")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--without-full", action="store_true", help="skip the full cluster")
    parser.add_argument("--servers", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=30.0, help="of ordinary jobs")
    return parser.parse_args()


def _spec(bench: str, input_bytes: int, **values: Any) -> dict[str, Any]:
    return {
        "application": "bench-ordinary",
        "application_kind": "batch",
        "target": {"kind": "best_effort"},
        "input_bytes": input_bytes,
        "units": 1,
        "labels": {"bench": bench},
        **values,
    }


_PROFILES: Final = """
SELECT 1 - count(*) FROM classification_profile p
JOIN workloads_application a ON a.id = p.application_id
WHERE a.name = 'bench-ordinary' AND p.is_current
"""


def _warm(api: ApiClient, database: "psycopg.Connection[Any]") -> None:
    """Profile the application, so that no measured job waits for it.

    A short job starts without a profile, so the profile is requested by a long one.
    """
    _submit(api, "warm", [_spec("warm", MEBIBYTE)])
    _submit(api, "long", [_spec("long", ENDLESS)])
    _await(database, _PROFILES)
    long = "SELECT id FROM workloads_job WHERE labels->>'bench' = 'long'"
    for (job,) in database.execute(long).fetchall():
        reply = api.post(f"/api/v1/jobs/{job}/cancel/", {}, key="cancel")
        if not reply.is_good:
            raise SystemExit(f"the long job was not cancelled: {reply.problem}")
    _await(database, "SELECT count(*) FROM workloads_job WHERE finished_at IS NULL")


def _submit(api: ApiClient, key: str, items: list[dict[str, Any]]) -> None:
    for first in range(0, len(items), AT_ONCE):
        batch = {"items": items[first : first + AT_ONCE]}
        reply = api.post("/api/v1/batches/", batch, key=f"{key}-{first}")
        if not reply.is_good:
            raise SystemExit(f"a batch was refused: {reply.problem}")


def _await(database: "psycopg.Connection[Any]", count: str, *parameters: Any) -> float:
    """Return the wall seconds until a query counts no row."""
    began = time.monotonic()
    while time.monotonic() - began < TIMEOUT_S:
        row = database.execute(count, parameters).fetchone()
        if row is not None and not row[0]:
            return time.monotonic() - began
        time.sleep(0.1)
    raise SystemExit(f"not done within {TIMEOUT_S:.0f} s: {count}")


def _ordinary(api: ApiClient, bench: str, seconds: float) -> str:
    """Submit ordinary jobs at a steady rate; returns the value of their label."""
    began = time.monotonic()
    for number in range(int(seconds / EVERY_S)):
        time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
        _submit(api, f"{bench}-{number}", [_spec(bench, MEBIBYTE)])
    return bench


_STARTS: Final = """
SELECT extract(epoch FROM min(e.at) - j.created_at)
FROM workloads_job j JOIN operations_event e ON e.subject = j.id::text AND e.kind = 'job.running'
WHERE j.labels->>'bench' = %s GROUP BY j.id ORDER BY j.created_at
"""


def _starts(database: "psycopg.Connection[Any]", bench: str) -> NDArray[np.float64]:
    """(n,) wall seconds from the submission of jobs to their start, once all have ended."""
    _await(
        database,
        "SELECT count(*) FROM workloads_job WHERE labels->>'bench' = %s AND finished_at IS NULL",
        bench,
    )
    return np.array([float(row[0]) for row in database.execute(_STARTS, [bench])])


_UNEVALUATED: Final = """
SELECT count(*) FROM workloads_job
WHERE labels->>'bench' = %s AND reason_code = 'WaitingForAgent'
"""


def _during_flood(
    instance: RunningInstance,
    api: ApiClient,
    database: "psycopg.Connection[Any]",
    options: argparse.Namespace,
    number: int,
) -> tuple[NDArray[np.float64], float]:
    """Return the starts of ordinary jobs, and the seconds until the flood was evaluated.

    The jobs of the flood are cancelled at the end.
    """
    bench = f"flood-{number}"
    specs = _flood(bench, options, is_placeable=False)

    def submit() -> None:
        with ApiClient(instance.url, instance.variable("BERTH_TOKEN")) as other:
            _submit(other, bench, specs)

    sender = threading.Thread(target=submit)
    sender.start()
    ordinary = _ordinary(api, f"during-{number}", options.seconds)
    sender.join()
    _await(database, _UNEVALUATED, bench)
    starts_s, evaluated_s = _starts(database, ordinary), _evaluated_after(database, bench)
    for batch, jobs in database.execute(_BATCHES, [bench]).fetchall():
        reply = api.post(f"/api/v1/batches/{batch}/cancel/", {"expect": jobs}, key=f"end-{batch}")
        if not reply.is_good:
            raise SystemExit(f"a batch was not cancelled: {reply.problem}")
    return starts_s, evaluated_s


_BATCHES: Final = """
SELECT batch_id, count(*) FROM workloads_job WHERE labels->>'bench' = %s GROUP BY batch_id
"""


def _flood(bench: str, options: argparse.Namespace, *, is_placeable: bool) -> list[dict[str, Any]]:
    """Return long jobs of ``options.shapes`` requests."""
    numbers = [number % options.shapes for number in range(options.jobs)]
    differ_in_label = options.differ == "labels" and not is_placeable
    sizes = [ENDLESS if differ_in_label else ENDLESS + number for number in numbers]
    if is_placeable:
        return [_spec(bench, size) for size in sizes]
    zones = [f"nowhere-{number if differ_in_label else 0}" for number in numbers]
    return [
        _spec(bench, size, constraints={"labels": {"zone": zone}})
        for size, zone in zip(sizes, zones, strict=True)
    ]


def _newest_frame(database: "psycopg.Connection[Any]") -> float:
    row = database.execute("SELECT max(cluster_s) FROM inventory_clusterframe").fetchone()
    return float(row[0] or 0.0) if row else 0.0


def _frames_since(database: "psycopg.Connection[Any]", began_s: float) -> str:
    """Return how many history frames were stored since one, and how many of them late."""
    row = database.execute(
        """SELECT count(*), count(*) FILTER (WHERE (facts->>'filled')::bool),
                  extract(epoch FROM max(gap)), max(minutes)
           FROM (SELECT facts, at - lag(at) OVER frames AS gap,
                        round((cluster_s - lag(cluster_s) OVER frames) / 60) AS minutes
                 FROM inventory_clusterframe WHERE cluster_s >= %s
                 WINDOW frames AS (ORDER BY cluster_s)) f""",
        [began_s],
    ).fetchone()
    stored, filled, gap_s, minutes = row or (0, 0, 0, 0)
    return (
        f"history frames: {stored} stored, {filled} of them filled in later, at most {gap_s:.1f} s"
        f" and {minutes:.0f} cluster minutes apart"
    )


def _evaluated_after(database: "psycopg.Connection[Any]", bench: str) -> float:
    """Return the seconds from the last submission to the first refusal of the last job."""
    row = database.execute(
        """SELECT extract(epoch FROM max(e.at) - max(j.created_at))
           FROM workloads_job j JOIN LATERAL (
               SELECT min(at) AS at FROM operations_event
               WHERE subject = j.id::text AND kind = 'job.waiting') e ON true
           WHERE j.labels->>'bench' = %s""",
        [bench],
    ).fetchone()
    return float(row[0]) if row else float("nan")


def _full_cluster(
    api: ApiClient, database: "psycopg.Connection[Any]", options: argparse.Namespace
) -> float:
    """Fill all units, submit jobs, and return the seconds until each was evaluated."""
    free = "SELECT count(*) FROM inventory_resourceunit WHERE allocation_id IS NULL"
    row = database.execute(free).fetchone()
    units = int(row[0]) if row else 0
    _submit(api, "fill", [_spec("fill", ENDLESS) for _ in range(units)])
    _await(database, free)
    _submit(api, "full", _flood("full", options, is_placeable=True))
    _await(database, _UNEVALUATED, "full")
    return _evaluated_after(database, "full")


def _quantiles(label: str, values_s: NDArray[np.float64]) -> str:
    p50, p95 = np.percentile(values_s, (50, 95))
    return (
        f"{label}: p50 {p50:.2f} s, p95 {p95:.2f} s, slowest {values_s.max():.2f} s"
        f" ({values_s.size} jobs)"
    )


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
