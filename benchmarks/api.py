"""Latency of job submission over REST: single jobs at a steady rate, and ten thousand at once.

Starts the web process as `./dev run` does, on its own temporary database, and uses keep-alive
connections. Latency counts from the time a request was due, so a slow answer also adds to the
latency of the requests queued behind it.

    ./dev bench api --rate 50 --seconds 30
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from queue import SimpleQueue
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks._calibration import calibrate, calibration_line
from benchmarks._instance import PROJECT, free_ports
from controlplane.embedded.fleet import web

SINGLE_P95_MS: Final = 40.0
BULK_S: Final = 2.0
BULK_JOBS: Final = 10_000
BULK_ROUNDS: Final = 3
CONNECTIONS: Final = 4
WARM_REQUESTS: Final = 100
SPEC: Final = {
    "application": "bench-known",
    "target": {"kind": "completion_time", "seconds": 600},
    "input_bytes": 1 << 30,
    "tasks": 8,
    "labels": {"trace": "bench"},
    "annotations": {"trace_index": 7},
}


def main() -> int:
    """Run the benchmark; return 0 if both targets are met."""
    options = _options()
    before_ms = calibrate()
    with _database() as environment, _web(environment) as port:
        token = _token(environment)
        _steady(port, token, rate=options.rate, count=WARM_REQUESTS)
        count = round(options.rate * options.seconds)
        single_ms = _steady(port, token, rate=options.rate, count=count)
        bulk_s = [_bulk(port, token) for _ in range(BULK_ROUNDS)]
        cpu_ms = _cpu_per_request(port, token)
    after_ms = calibrate()
    p50, p95, p99 = np.percentile(single_ms, [50, 95, 99])
    _say(f"single submit, {options.rate:g} requests/s for {options.seconds:g} s, keep-alive:")
    _say(f"  p50 {p50:.1f} ms  p95 {p95:.1f} ms  p99 {p99:.1f} ms  ({single_ms.size:,} requests)")
    _say(f"  one connection without pauses: {cpu_ms:.2f} ms per request")
    shown = ", ".join(f"{seconds:.2f}" for seconds in bulk_s)
    _say(f"bulk of {BULK_JOBS:,}: accepted in {shown} s")
    _say(calibration_line(before_ms, after_ms))
    is_met = float(p95) <= SINGLE_P95_MS and max(bulk_s) <= BULK_S
    _say(
        f"targets p95 {SINGLE_P95_MS:g} ms and bulk {BULK_S:g} s: {'met' if is_met else 'MISSED'}"
    )
    return 0 if is_met else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second")
    parser.add_argument("--seconds", type=float, default=30.0)
    return parser.parse_args()


@contextmanager
def _database() -> Iterator[dict[str, str]]:
    """Create a temporary database; yield the environment that uses it."""
    url = os.environ["DATABASE_URL"]
    name = f"berth_bench_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    environment = {
        **os.environ,
        "DATABASE_URL": urlunsplit(urlsplit(url)._replace(path=f"/{name}")),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.dev",
        "PYTHONPATH": str(PROJECT),
    }
    try:
        _manage(environment, "migrate", "--verbosity", "0")
        yield environment
    finally:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _manage(environment: dict[str, str], *arguments: str) -> str:
    completed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return completed.stdout


def _token(environment: dict[str, str]) -> str:
    return str(json.loads(_manage(environment, "create_admin", "--print-json"))["token"])


@contextmanager
def _web(environment: dict[str, str]) -> Iterator[int]:
    port = free_ports()
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", *web(port).arguments], cwd=PROJECT, env=environment
    )
    try:
        _await(port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _await(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/api/v1/version/")
            connection.getresponse().read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
        finally:
            connection.close()


def _post(connection: HTTPConnection, path: str, body: bytes, headers: dict[str, str]) -> Any:
    connection.request("POST", path, body, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status >= 300:
        raise RuntimeError(f"{response.status}: {answer}")
    return answer


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def _steady(port: int, token: str, *, rate: float, count: int) -> NDArray[np.float64]:
    """Submit at a steady rate; return the (count,) latencies from the due times, in ms."""
    due: SimpleQueue[tuple[int, float] | None] = SimpleQueue()
    latency_ms = np.full(count, np.nan)
    body = json.dumps(SPEC).encode()

    def send() -> None:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        while (task := due.get()) is not None:
            number, at = task
            key = {"Idempotency-Key": f"{os.getpid()}-{at}-{number}"}
            _post(connection, "/api/v1/jobs/", body, _headers(token) | key)
            latency_ms[number] = (time.perf_counter() - at) * 1e3
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    for number in range(count):
        at = began + number / rate
        time.sleep(max(0.0, at - time.perf_counter()))
        due.put((number, at))
    for _ in threads:
        due.put(None)
    for thread in threads:
        thread.join()
    if np.isnan(latency_ms).any():
        raise RuntimeError("some requests failed")
    return latency_ms


def _cpu_per_request(port: int, token: str, *, count: int = 300) -> float:
    """Return the mean time of a request, without pauses between them, in ms."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    body = json.dumps(SPEC).encode()
    began = time.perf_counter()
    for _ in range(count):
        _post(connection, "/api/v1/jobs/", body, _headers(token))
    elapsed_s = time.perf_counter() - began
    connection.close()
    return elapsed_s / count * 1e3


def _bulk(port: int, token: str) -> float:
    """Return the seconds until a request of ten thousand jobs is accepted."""
    body = json.dumps({"items": [SPEC] * BULK_JOBS}).encode()
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    began = time.perf_counter()
    answer = _post(connection, "/api/v1/batches/", body, _headers(token))
    elapsed_s = time.perf_counter() - began
    connection.close()
    if answer["accepted"] != BULK_JOBS:
        raise RuntimeError(f"only {answer['accepted']} jobs were accepted")
    return elapsed_s


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
