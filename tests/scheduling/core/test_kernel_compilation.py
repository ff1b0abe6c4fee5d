"""Kernels that decisions and commits need, compiled before the first job."""

import subprocess
import sys

DECIDE = """
import sys
from dataclasses import replace

import numpy as np

from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed, Within
from apps.scheduling.core.warm_up import compile_kernels
from tests.scheduling.core.clusters import request, topology

def forms():
    modules = [m for name, m in sys.modules.items() if name.startswith("apps.scheduling.core")]
    found = {f for m in modules for f in vars(m).values() if hasattr(f, "signatures")}
    return {f"{f.py_func.__module__}.{f.__name__}": len(f.signatures) for f in found}

compile_kernels()
before = forms()
rng = np.random.default_rng(1)
for name in ("expected", "tarcil", "paragon_greedy", "least_loaded", "roomiest"):
    store, policy = MemoryCluster(topology((4, 8) * 40), is_compiled=True), make(name)
    loud = {"caused": np.full(10, 95.0), "tolerated": np.full(10, 1.0)}
    asked = [
        request(), request(3, gang=True), request(excluded=frozenset({1})), request(**loud),
        request(labels=frozenset({"a=b"})), request(2, spread=Within.SERVER),
        request(platform_speed=np.array([1.0, 0.5]), unit_memory_bytes=1e8),
    ]
    for batch in (asked, asked, asked[:1]):
        outcomes = policy.place(store.view(), batch, rng)
        pairs = [(o, r) for o, r in zip(outcomes, batch) if isinstance(o, Placed)]
        done = store.commit_batch(pairs)
        store.release(done[0].allocation)
        free = store.view().unit_free & (rng.random(480) < 0.9)  # the others are reserved
        policy.place(replace(store.view(), unit_free=free), batch, rng)
assert sum(isinstance(each, Committed) for each in done) == 1
print({name: n for name, n in forms().items() if n != before.get(name)}, len(before) > 30)
"""


def test_no_kernel_is_compiled_for_a_decision_after_the_warm_up() -> None:
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", DECIDE], capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.stdout) == ("", "{} True\n")
