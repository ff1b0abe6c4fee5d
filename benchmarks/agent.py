"""Real programs on agents: from submission, and from the order, to the start of the process.

Starts its own instance with three agents on this machine, submits `date` over REST one at a time,
and reads what the programs and the agents have written: no clock but that of this machine. Then
the same beside one busy process for each core. How busy the machine was otherwise is printed.

    ./dev bench agent --jobs 100
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg

from apps.testbed.management.replay.api_client import ApiClient
from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import RunningInstance
from benchmarks._results import RESULTS, Table, markdown, store
from controlplane.embedded.agents import AGENTS

ORDER_GOAL_MS: Final = 20.0
SUBMISSION_GOAL_MS: Final = 150.0
WARM: Final = 5
TIMEOUT_S: Final = 60.0
COMMAND: Final = ("date", "+%s%N")  # what it prints is when it runs
STAGES: Final = (
    "submission to units",
    "units to order",
    "order to process",
    "submission to process",
)


@dataclass(frozen=True, slots=True)
class Started:
    """When one program was submitted, given its units, ordered and started: epoch seconds."""

    submitted: float
    placed: float
    ordered: float
    started: float

    @property
    def stages_ms(self) -> tuple[float, ...]:
        """Durations in the order of `STAGES`."""
        points = (self.submitted, self.placed, self.ordered, self.started)
        parts = [(b - a) * 1e3 for a, b in pairwise(points)]
        return (*parts, (self.started - self.submitted) * 1e3)


def main() -> int:
    """Run the benchmark; return 0 if both goals are met on the machine as it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100, help="programs of each round")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result")
    options = parser.parse_args()
    before_ms = calibrate()
    instance = RunningInstance(("--backend", "agent", "--no-replay"))
    try:
        instance.start()
        with ApiClient(instance.url, instance.variable("BERTH_TOKEN")) as api:
            _await_agents(api)
            _round(api, instance, jobs=WARM)
            load = Path("/proc/pressure/cpu").read_text().split()[1].partition("=")[2]
            found = _round(api, instance, jobs=options.jobs)
            with busy_processes(os.cpu_count() or 1):
                beside = _round(api, instance, jobs=options.jobs)
    finally:
        instance.discard()
    table = table_of({"as found": found, "beside busy processes": beside})
    _say(markdown(table))
    calibration = calibration_line(before_ms, calibrate())
    said = f"some process waited for a core {load} % of the time before; {calibration}"
    _say(said)
    met = goals({"order to process": ORDER_GOAL_MS, "submission to process": SUBMISSION_GOAL_MS},
                found)  # fmt: skip
    for line, _ in met:
        _say(line)
    figures = [said, *(line for line, _ in met)]
    chosen = {"jobs": options.jobs}
    store("agent", arguments=chosen, figures=figures, tables={"start": table},
          folder=options.results)  # fmt: skip
    return 0 if all(is_met for _, is_met in met) else 1


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep as many processes busy as there are cores."""
    busy = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


def _await_agents(api: ApiClient) -> None:
    """Wait until all machines are servers."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        found = api.get("/api/v1/agents/").body["results"]
        if sum(agent["registered_at"] is not None for agent in found) == len(AGENTS):
            return
        if time.monotonic() > until:
            raise SystemExit("the agents did not register")
        time.sleep(0.1)


def _round(api: ApiClient, instance: RunningInstance, *, jobs: int) -> list[Started]:
    return [_run(api, instance) for _ in range(jobs)]


def _run(api: ApiClient, instance: RunningInstance) -> Started:
    """Submit one program and wait for its end; the next one never waits for this one."""
    submitted = time.time()
    reply = api.post("/api/v1/jobs/", {"command": list(COMMAND)}, key=f"agent-{submitted}")
    if not reply.is_good:
        raise SystemExit(f"the program was refused: {reply.problem}")
    job = reply.body["metadata"]["id"]
    until = time.monotonic() + TIMEOUT_S
    while True:
        found = api.get(f"/api/v1/jobs/{job}/").body
        state = found["status"]["state"]
        if state == "succeeded":
            break
        if state in {"failed", "cancelled"} or time.monotonic() > until:
            raise SystemExit(f"the program is {state}: {found}")
        time.sleep(0.05)
    ordered, started = _on_machine(instance.home, job)
    placed = _placed(instance.variable("DATABASE_URL"), job)
    return Started(submitted, placed, ordered, started)


def _on_machine(home: Path, job: str) -> tuple[float, float]:
    """Return when the order of a job came to its agent, and when its process ran."""
    offset = time.time() - time.monotonic()
    for path in home.glob("agents/*/tasks/*/order.json"):
        order: dict[str, Any] = json.loads(path.read_text())
        if order["environment"]["BERTH_JOB_ID"] == job:
            return offset + order["known_s"], int((path.parent / "stdout.0").read_text()) / 1e9
    raise SystemExit(f"no agent has a task of {job}")


def _placed(database_url: str, job: str) -> float:
    query = (
        "SELECT extract(epoch FROM at) FROM scheduling_decision"
        " WHERE job_id = %s AND outcome = 'placed'"
    )
    with psycopg.connect(database_url) as connection:
        row = connection.execute(query, [job]).fetchone()
    if row is None:
        raise SystemExit(f"{job} has no decision")
    return float(row[0])


def table_of(rounds: dict[str, Sequence[Started]]) -> Table:
    """Return the quantiles of each stage of each round."""
    table = [["", *(f"{name}: {q}" for name in rounds for q in ("p50", "p95", "max"))]]
    for number, stage in enumerate(STAGES):
        cells = []
        for found in rounds.values():
            values = [run.stages_ms[number] for run in found]
            cells += [f"{v:.0f} ms" for v in (*np.percentile(values, (50, 95)), max(values))]
        table.append([stage, *cells])
    return table


def goals(limits_ms: dict[str, float], found: Sequence[Started]) -> list[tuple[str, bool]]:
    """Return a sentence for each goal, and whether its median is met."""
    met = []
    for stage, limit in limits_ms.items():
        p50 = float(np.median([run.stages_ms[STAGES.index(stage)] for run in found]))
        word = "met" if p50 <= limit else "MISSED"
        met.append((f"{stage}: p50 {p50:.1f} ms, goal {limit:.0f} ms: {word}", p50 <= limit))
    return met


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
