"""Random tiny instances: a few hundred seeds cover every rule of the problem."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import parse


def tiny(
    seed: int, *, nodes: int = 4, containers: int = 6, is_plain: bool = False
) -> dict[str, Any]:
    """JSON of a random instance with at most ``nodes`` nodes and ``containers`` containers.

    ``is_plain``: identical nodes of two slots, and intensities 1 (tazes) and 0 (turtles).
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, nodes + 1))
    racks = int(rng.integers(1, n + 1))
    kinds = [(100.0, 200.0), (80.0, 260.0), (0.0, 50.0), (120.0, 120.0)]
    node_specs: list[dict[str, Any]] = []
    for i in range(n):
        idle, peak = kinds[0 if is_plain else int(rng.integers(len(kinds)))]
        slots = 2 if is_plain else int(rng.integers(1, 4))
        rack = f"r{int(rng.integers(racks))}"
        node_specs.append(
            {"id": f"n{i}", "rack": rack, "slots": slots, "idle_watts": idle, "peak_watts": peak}
        )
    slot_count = sum(node["slots"] for node in node_specs)
    count = int(rng.integers(0, min(containers, slot_count) + 1))
    jobs = int(rng.integers(1, max(count, 1) + 1))
    communication = rng.choice(["node", "rack", "cluster"], jobs)
    levels = [0.0, 0.25, 0.3, 0.5, 0.9, 1.0]
    container_specs: list[dict[str, Any]] = []
    for i in range(count):
        job, is_taz = int(rng.integers(jobs)), bool(rng.random() < 0.5)
        level = float(is_taz) if is_plain else float(rng.choice(levels))
        container_specs.append(
            {
                "id": f"c{i}",
                "job": f"j{job}",
                "intensity": level,
                "class": "taz" if is_taz else "turtle",
                "communication": str(communication[job]),
            }
        )
    places = rng.permutation(np.repeat(np.arange(n), [node["slots"] for node in node_specs]))
    is_running = rng.random(count) < 0.6
    current = {f"c{i}": f"n{places[i]}" for i in range(count) if is_running[i]}
    return {"nodes": node_specs, "containers": container_specs, "current": current}


def tiny_instance(seed: int, *, is_plain: bool = False, containers: int = 6) -> Instance:
    """Parse an instance of `tiny`."""
    return parse(tiny(seed, is_plain=is_plain, containers=containers))


def random_assignment(instance: Instance, seed: int) -> Ints:
    """(c,) node of each container in a random assignment that fits."""
    slots = np.repeat(np.arange(instance.slots.size), instance.slots)
    shuffled = np.random.default_rng(seed).permutation(slots)
    return shuffled[: instance.job.size].astype(np.int64)


def every_assignment(instance: Instance) -> Ints:
    """(k, c) every assignment that fits."""
    nodes = range(len(instance.node_ids))
    fitting = [list(a) for a in _fitting(instance, product(nodes, repeat=instance.job.size))]
    return np.array(fitting, dtype=np.int64).reshape(len(fitting), instance.job.size)


def _fitting(
    instance: Instance, assignments: Iterator[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    slots = instance.slots.tolist()
    for assignment in assignments:
        if all(assignment.count(node) <= slots[node] for node in set(assignment)):
            yield assignment


def some_weights(seed: int) -> dict[str, float]:
    """Random weights of P, D and C; each may be 0."""
    rng = np.random.default_rng([seed, 7])
    drawn = rng.choice([0.0, 0.22, 0.36, 1.0, 2.0, 3.0], 3)
    return dict(zip("PDC", drawn.tolist(), strict=True))


def only_tazes(
    jobs: Mapping[str, Sequence[float]],
    *,
    nodes: int,
    slots: int = 2,
    communication: Mapping[str, str] | None = None,
) -> Instance:
    """One rack of equal nodes, and jobs of tazes with these intensities.

    ``communication`` is by job and defaults to ``cluster``. Containers are named ``job-0``,
    ``job-1`` ...
    """
    communication = communication or {}
    node = {"rack": "r", "slots": slots, "idle_watts": 1.0, "peak_watts": 2.0}
    containers = [
        {
            "id": f"{job}-{i}",
            "job": job,
            "intensity": intensity,
            "class": "taz",
            "communication": communication.get(job, "cluster"),
        }
        for job, intensities in jobs.items()
        for i, intensity in enumerate(intensities)
    ]
    return parse(
        {"nodes": [{"id": f"n{i}", **node} for i in range(nodes)], "containers": containers}
    )
