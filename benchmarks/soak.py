"""Ten agents at 95 % load for ten minutes, one of them killed every 20 s.

    ./dev bench soak [--seconds 600] [--servers 40] [--agents 10] [--kill-every 20] [--load 0.95]
                     [--width 0.25] [--seed 2027]

Starts its own instance. One-unit jobs are submitted by a Poisson process; now and then a gang is
submitted that needs a quarter of all units at once. Every 20 s one process of the agents is
killed. Meanwhile and at the end all consistency checks of `verify_replay` run in the database: a
unit held twice, a job that is lost, or one that runs without units or launch, is a violation. At
the end every job must have succeeded with one launch, and every gang must have started by the time
that its reservation promised. Stores the result; returns 1 if anything was violated.
"""

import argparse
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import psycopg

from apps.testbed.management.replay.api_client import ApiClient
from apps.testbed.selectors.checks import CHECKS
from benchmarks._instance import RunningInstance
from benchmarks._results import Table, store

SPEED: Final = 60.0  # cluster seconds per wall second
MEAN_S: Final = 1200.0  # duration of a one-unit job, cluster seconds
LONGEST_S: Final = 6000.0
GANG_S: Final = 300.0
TICK_S: Final = 0.5  # wall seconds
GANG_EVERY_S: Final = 30.0
CHECK_EVERY_S: Final = 10.0
GRACE_S: Final = 60.0  # an expired lease may wait for the sweep
DRAIN_S: Final = 600.0
LATE_S: Final = 10.0 * SPEED  # a claim of a killed agent lasts for ten wall seconds
AGENTS: Final = "--queues agents"

_UNITS: Final = "SELECT count(*) FROM inventory_resourceunit"
_BUSY: Final = "SELECT count(*) FROM inventory_resourceunit WHERE allocation_id IS NOT NULL"
_LEFT: Final = """
SELECT count(*) FROM workloads_job WHERE state NOT IN ('succeeded', 'failed', 'cancelled')
"""
_ENDS: Final = "SELECT state, attempts, count(*) FROM workloads_job GROUP BY 1, 2 ORDER BY 1, 2"
_PROMISES: Final = "SELECT job_id, promised_s FROM scheduling_reservation"
_GANGS: Final = """
SELECT id, submitted_s, placed_s FROM workloads_job WHERE name LIKE 'gang-%' ORDER BY submitted_s
"""


@dataclass(slots=True)
class Soak:
    """What happened.

    Attributes
    ----------
    submitted, kills, checks : counts
    busy : share of the units that were allocated, at each tick
    violations : of the consistency checks, as sentences
    promised : start that the reservation of a gang promised first, cluster seconds, by job
    ends : jobs by state and number of launches
    waits_s, late_s : of the gangs: from submission to placement, and after the promise
    """

    units: int = 0
    submitted: int = 0
    kills: int = 0
    checks: int = 0
    busy: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    promised: dict[str, float] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    waits_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)

    @property
    def not_succeeded(self) -> int:
        """Jobs that did not succeed with one launch."""
        return self.submitted - self.ends.get("succeeded, 1 launch", 0)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was violated."""
        late = [each for each in self.late_s if each > LATE_S]
        return not (self.violations or late or self.not_succeeded)


class Runner:
    """Submits jobs, kills agents and checks the database, all on one thread."""

    def __init__(self, instance: RunningInstance, options: argparse.Namespace) -> None:
        self._instance, self._options = instance, options
        self._rng = np.random.default_rng(options.seed)
        self._next_s = {"gang": GANG_EVERY_S, "kill": options.kill_every, "check": CHECK_EVERY_S}
        self.soak = Soak()

    def run(self) -> Soak:
        """Run, drain and read the ends of all jobs."""
        url = self._instance.variable("DATABASE_URL")
        with (
            ApiClient(self._instance.url, self._instance.variable("BERTH_TOKEN")) as api,
            psycopg.connect(url, autocommit=True) as database,
        ):
            self._await_units(database)
            began_s = time.monotonic()
            while (now_s := time.monotonic() - began_s) < self._options.seconds:
                self._submit(api, now_s)
                if self._is_due("kill", now_s, self._options.kill_every):
                    self._kill()
                self._watch(database, now_s)
                time.sleep(max(0.0, TICK_S - (time.monotonic() - began_s - now_s)))
            self._drain(database)
            self._read_ends(database)
        return self.soak

    def _is_due(self, what: str, now_s: float, every_s: float) -> bool:
        if now_s < self._next_s[what]:
            return False
        self._next_s[what] += every_s
        return True

    def _await_units(self, database: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self.soak.units = _one(database, _UNITS)
        if not self.soak.units:
            raise SystemExit("the instance has no units")

    def _submit(self, api: ApiClient, now_s: float) -> None:
        """Submit the jobs of one tick in a batch."""
        units, options = self.soak.units, self._options
        width = max(2, round(options.width * units))
        gangs = width * GANG_S / (GANG_EVERY_S * SPEED)  # mean number of units that they use
        per_s = max(0.0, options.load * units - gangs) * SPEED / MEAN_S
        count = int(self._rng.poisson(per_s * TICK_S))
        lasts_s = np.minimum(self._rng.exponential(MEAN_S, count), LONGEST_S)
        items = [_spec(f"soak-{self.soak.submitted + n}", 1, s) for n, s in enumerate(lasts_s)]
        if self._is_due("gang", now_s, GANG_EVERY_S):
            items.append(_spec(f"gang-{now_s:.0f}", width, GANG_S))
        if not items:
            return
        reply = api.post("/api/v1/batches/", {"items": items}, key=f"soak-{now_s:.3f}")
        if not reply.is_good:
            raise SystemExit(f"a batch was refused: {reply.problem}")
        self.soak.submitted += len(items)

    def _kill(self) -> None:
        found = [pid for pid, text in self._instance.descendants().items() if AGENTS in text]
        if found:
            os.kill(found[int(self._rng.integers(len(found)))], signal.SIGKILL)
            self.soak.kills += 1

    def _watch(self, database: "psycopg.Connection[tuple[Any, ...]]", now_s: float) -> None:
        self.soak.busy.append(_one(database, _BUSY) / self.soak.units)
        for job, promised_s in database.execute(_PROMISES).fetchall():
            self.soak.promised.setdefault(str(job), float(promised_s))
        if self._is_due("check", now_s, CHECK_EVERY_S):
            self._check(database, now_s)
            state = f"{self.soak.busy[-1]:.0%} busy, {len(self.soak.violations)} violations"
            _print(
                f"{now_s:.0f} s: {self.soak.submitted:,} jobs, {self.soak.kills} kills, {state}"
            )

    def _check(self, database: "psycopg.Connection[tuple[Any, ...]]", now_s: float) -> None:
        self.soak.checks += 1
        for check in CHECKS:
            rows = database.execute(check.sql, {"grace_s": GRACE_S}).fetchall()
            self.soak.violations += [f"{now_s:.0f} s: {check.name}: {row[0]}" for row in rows[:3]]

    def _drain(self, database: "psycopg.Connection[tuple[Any, ...]]") -> None:
        began_s = time.monotonic()
        while (left := _one(database, _LEFT)) and time.monotonic() < began_s + DRAIN_S:
            for job, promised_s in database.execute(_PROMISES).fetchall():
                self.soak.promised.setdefault(str(job), float(promised_s))
            time.sleep(TICK_S)
        if left:
            self.soak.violations.append(f"{left} jobs had not ended {DRAIN_S:.0f} s later")
        self._check(database, self._options.seconds + time.monotonic() - began_s)

    def _read_ends(self, database: "psycopg.Connection[tuple[Any, ...]]") -> None:
        for state, launches, count in database.execute(_ENDS).fetchall():
            self.soak.ends[f"{state}, {launches} launch{'' if launches == 1 else 'es'}"] = count
        for job, submitted_s, placed_s in database.execute(_GANGS).fetchall():
            if placed_s is None:
                self.soak.violations.append(f"gang {job} never started")
                continue
            self.soak.waits_s.append(placed_s - submitted_s)
            if str(job) in self.soak.promised:
                self.soak.late_s.append(placed_s - self.soak.promised[str(job)])


def _spec(name: str, units: int, duration_s: float) -> dict[str, Any]:
    return {
        "name": name,
        "application": "soak" if units == 1 else "soak-gang",
        "application_kind": "batch" if units == 1 else "analytics",  # batch stays on one server
        "target": {"kind": "best_effort"},
        "duration_seconds": round(float(duration_s), 1) + 1.0,
        "units": units,
        "gang": True,
    }


def _one(database: "psycopg.Connection[tuple[Any, ...]]", query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0


def table(soak: Soak) -> Table:
    """Return the published table."""
    late = [each for each in soak.late_s if each > 0.0]
    lateness = f"{max(late) / SPEED:.1f} s at most" if late else "none"
    return [
        ["", "result"],
        ["jobs submitted", f"{soak.submitted:,}"],
        ["jobs that succeeded with one launch", f"{soak.ends.get('succeeded, 1 launch', 0):,}"],
        ["processes of agents killed", f"{soak.kills}"],
        ["units busy, mean", f"{np.mean(soak.busy):.0%}"],
        ["runs of all consistency checks", f"{soak.checks}"],
        ["violations", f"{len(soak.violations)}"],
        ["gangs", f"{len(soak.waits_s)}, {len(soak.late_s)} with a reservation"],
        ["longest wait of a gang, wall s", f"{max(soak.waits_s, default=0.0) / SPEED:.1f}"],
        ["gangs that started after the promised time", f"{len(late)}"],
        ["lateness, wall s", lateness],
    ]


def main() -> int:
    """Run the benchmark; return 0 if nothing was violated."""
    options = _options()
    instance = RunningInstance(
        ("--servers", str(options.servers), "--speed", str(SPEED), "--no-replay"),
        variables={"BERTH_AGENTS": str(options.agents)},
    )
    try:
        instance.start()
        soak = Runner(instance, options).run()
    finally:
        instance.discard()
    for sentence in soak.violations:
        _print(sentence)
    rows = table(soak)
    for name, value in rows[1:]:
        _print(f"{name}: {value}")
    _print(", ".join(f"{count:,} {name}" for name, count in soak.ends.items()))
    figures = {
        name: value for name, value in asdict(soak).items() if name not in ("busy", "promised")
    }
    store("soak", arguments=vars(options), figures=figures, tables={"soak": rows})
    return 0 if soak.is_sound else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--servers", type=int, default=40)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--kill-every", type=float, default=20.0)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--width", type=float, default=0.25, help="of a gang, share of all units")
    parser.add_argument("--seed", type=int, default=2027)
    return parser.parse_args()


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
