"""How long the extender of Kubernetes takes to filter and to score nodes, over HTTP.

One connection asks for pods one after the other, as kube-scheduler does. The nodes are named, and
are servers of Berth; no database is asked.

    ./dev bench extender --nodes 100 1000 5000 --pods 200
"""

import argparse
import json
import sys
import time
from http.client import HTTPConnection
from typing import Any, Final

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.execution.backends.kubernetes.cluster import Cluster
from apps.execution.backends.kubernetes.extender import Access, Extender, ExtenderServer
from apps.execution.core.kubernetes.extender import View
from benchmarks._calibration import calibrate, calibration_line

LIMIT_MS: Final = 100.0  # p99 of one request; httpTimeout of the example is 1 s
TOKEN: Final = "of-the-benchmark"  # noqa: S105 - of this process
UNITS: Final = 16


class _Fixed:
    """A copy of a cluster that does not change, and no profiles."""

    def __init__(self, view: View) -> None:
        self._fixed = view

    def current(self, now_s: float) -> View | None:
        return self._fixed

    def profile(self, application: str | None) -> None:
        return None


def main() -> int:
    """Run the benchmark; return 0 if the limit is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--pods", type=int, default=200)
    options = parser.parse_args()
    before_ms = calibrate()
    worst = 0.0
    for nodes in options.nodes:
        for verb, took in _measure(nodes, options.pods).items():
            p50, p99 = (float(np.percentile(took, q)) * 1e3 for q in (50, 99))
            sys.stdout.write(f"{nodes} nodes, {verb}: p50 {p50:.1f} ms, p99 {p99:.1f} ms\n")
            worst = max(worst, p99)
    sys.stdout.write(calibration_line(before_ms, calibrate()) + "\n")
    return 0 if worst <= LIMIT_MS else 1


def _measure(nodes: int, pods: int) -> dict[str, list[float]]:
    """Return the seconds of each request, by verb."""
    names = [f"node-{i}" for i in range(nodes)]
    server = ExtenderServer(
        ("127.0.0.1", 0), Extender(Cluster(None), _Fixed(_view(names))), Access(TOKEN)
    )
    server.start()
    connection = HTTPConnection("127.0.0.1", server.port)
    took: dict[str, list[float]] = {"filter": [], "prioritize": []}
    for i in range(pods):
        body = json.dumps({"Pod": _pod(i), "Nodes": None, "NodeNames": names})
        for verb, times in took.items():
            begun_s = time.perf_counter()
            connection.request("POST", f"/{verb}", body, {"Authorization": f"Bearer {TOKEN}"})
            connection.getresponse().read()
            times.append(time.perf_counter() - begun_s)
    connection.close()
    server.stop()
    return took


def _view(names: list[str]) -> View:
    rng = np.random.default_rng(1)
    size = len(names)
    return View(
        index={name: i for i, name in enumerate(names)},
        is_open=rng.random(size) < 0.95,
        free=rng.integers(0, UNITS + 1, size),
        units=np.full(size, UNITS),
        memory=rng.uniform(0.0, 64e9, size),
        tolerance=rng.uniform(0.0, 100.0, (size, N_SOURCES)),
    )


def _pod(number: int) -> dict[str, Any]:
    requests = {"cpu": "2", "memory": "1Gi"}
    return {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": str(number)},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


if __name__ == "__main__":
    sys.exit(main())
