"""Tiny instances drawn at random: every rule of the problem turns up within a few hundred."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.instance import Instance
from apps.placement.core.instance_file import parse


def tiny(
    seed: int, *, nodes: int = 4, containers: int = 6, is_plain: bool = False
) -> dict[str, Any]:
    """JSON of an instance of at most so many nodes and containers.

    ``is_plain``: identical nodes of two slots and intensities 1 for tazes, 0 for turtles.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, nodes + 1))
    racks = int(rng.integers(1, n + 1))
    kinds = [(100.0, 200.0), (80.0, 260.0), (0.0, 50.0), (120.0, 120.0)]
    made: list[dict[str, Any]] = []
    for i in range(n):
        idle, peak = kinds[0 if is_plain else int(rng.integers(len(kinds)))]
        slots = 2 if is_plain else int(rng.integers(1, 4))
        rack = f"r{int(rng.integers(racks))}"
        made.append(
            {"id": f"n{i}", "rack": rack, "slots": slots, "idle_watts": idle, "peak_watts": peak}
        )
    room = sum(node["slots"] for node in made)
    count = int(rng.integers(0, min(containers, room) + 1))
    jobs = int(rng.integers(1, max(count, 1) + 1))
    wish = rng.choice(["node", "rack", "cluster"], jobs)
    levels = [0.0, 0.25, 0.3, 0.5, 0.9, 1.0]
    held: list[dict[str, Any]] = []
    for i in range(count):
        job, is_taz = int(rng.integers(jobs)), bool(rng.random() < 0.5)
        level = float(is_taz) if is_plain else float(rng.choice(levels))
        held.append(
            {
                "id": f"c{i}",
                "job": f"j{job}",
                "intensity": level,
                "class": "taz" if is_taz else "turtle",
                "communication": str(wish[job]),
            }
        )
    places = rng.permutation(np.repeat(np.arange(n), [node["slots"] for node in made]))
    runs = rng.random(count) < 0.6
    current = {f"c{i}": f"n{places[i]}" for i in range(count) if runs[i]}
    return {"nodes": made, "containers": held, "current": current}


def tiny_instance(seed: int, *, is_plain: bool = False, containers: int = 6) -> Instance:
    """An instance of `tiny`."""
    return parse(tiny(seed, is_plain=is_plain, containers=containers))


def every_assignment(instance: Instance) -> Ints:
    """(k, c) all assignments that fit."""
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
    """Weights of P, D and C; any may be 0."""
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
    """One rack of equal nodes, and jobs of tazes of these intensities, ``cluster`` unless said.

    Containers are called ``job-0``, ``job-1`` ...
    """
    wishes = communication or {}
    node = {"rack": "r", "slots": slots, "idle_watts": 1.0, "peak_watts": 2.0}
    containers = [
        {
            "id": f"{job}-{i}",
            "job": job,
            "intensity": intensity,
            "class": "taz",
            "communication": wishes.get(job, "cluster"),
        }
        for job, intensities in jobs.items()
        for i, intensity in enumerate(intensities)
    ]
    return parse(
        {"nodes": [{"id": f"n{i}", **node} for i in range(nodes)], "containers": containers}
    )
