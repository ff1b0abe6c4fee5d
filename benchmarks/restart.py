"""Time of a stop and of the next start of a running instance with data.

Starts its own complete instance, replays the generated day for a while, sends Ctrl-C and starts it
again. Waits for the first page, the first placement by an agent and the first heartbeats of the
emulated servers. At the end, counts the processes and socket directories that a stop leaves
behind.

    ./dev bench restart --servers 600 --seconds 20
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import psycopg

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import RunningInstance

ROUNDS: Final = 3
STOP_S: Final = 5.0
FIRST_PAGE_S: Final = 5.0
WORKERS_S: Final = 10.0
TIMEOUT_S: Final = 30.0
_PLACED: Final = "SELECT count(*) FROM scheduling_decision WHERE at > to_timestamp(%s)"
_READINGS: Final = "SELECT count(*) FROM inventory_serverreading WHERE at > to_timestamp(%s)"


def main() -> int:
    """Run the benchmark; return 0 if every target is met."""
    options = _options()
    before_ms = calibrate()
    instance = RunningInstance(("--servers", str(options.servers)))
    rows, left = [], 0
    try:
        instance.start()
        for _ in range(ROUNDS):
            time.sleep(options.seconds)
            rows.append(_round(instance))
        sockets = Path(instance.variable("BERTH_SOCKET_DIR"))
        instance.stop()
        left = int(sockets.exists()) + _processes_of(instance.home)
    finally:
        instance.discard()
    stop_s, page_s, placed_s, heartbeat_s = np.median(np.array(rows), axis=0)
    _say(f"{options.servers:,} servers, medians of {ROUNDS} rounds")
    _say(f"stop {stop_s:.1f} s, first page {page_s:.1f} s")
    _say(f"first placement {placed_s:.1f} s, first heartbeats {heartbeat_s:.1f} s")
    _say(f"processes and socket directories left behind: {left}")
    _say(calibration_line(before_ms, calibrate()))
    is_met = (
        stop_s <= STOP_S
        and page_s <= FIRST_PAGE_S
        and max(placed_s, heartbeat_s) <= WORKERS_S
        and left == 0
    )
    goals = f"{STOP_S:.0f} s, {FIRST_PAGE_S:.0f} s, {WORKERS_S:.0f} s, nothing left"
    _say(f"targets {goals}: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def _round(instance: RunningInstance) -> tuple[float, float, float, float]:
    began = time.monotonic()
    instance.stop()
    stop_s = time.monotonic() - began
    began, wall_s = time.monotonic(), time.time()
    instance.start()
    page_s = time.monotonic() - began
    with psycopg.connect(instance.variable("DATABASE_URL"), autocommit=True) as connection:
        placed_s = _until(connection, _PLACED, wall_s, began)
        heartbeat_s = _until(connection, _READINGS, wall_s, began)
    return stop_s, page_s, placed_s, heartbeat_s


def _until(
    connection: "psycopg.Connection[tuple[int]]", query: str, since: float, began: float
) -> float:
    """Return the seconds from `began` until the query first counts a row."""
    while time.monotonic() - began < TIMEOUT_S:
        row = connection.execute(query, [since]).fetchone()
        if row is not None and row[0]:
            break
        time.sleep(0.05)
    return time.monotonic() - began


def _processes_of(home: Path) -> int:
    """Count running processes whose environment names the instance."""
    text, count = f"BERTH_HOME={home}".encode(), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                count += text in (entry / "environ").read_bytes()
            except OSError:
                continue  # of another user, or has just ended
    return count


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=20.0, help="run time before each stop")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
