"""pymoo's NSGA-II on the same placements: the peer, where it is installed.

A permutation of slots, of which the first c are the containers'; order crossover, inversion,
objectives by the same compiled kernel. Everything it ever finds counts, not its last population.
"""

import importlib
import importlib.util
from typing import Any, NamedTuple

import numpy as np

from apps.placement.core.front import Archive, losses, scales
from apps.placement.core.instance import Instance
from apps.placement.core.kernels import evaluate_all, problem

ABSENT = "pymoo is not installed here (pip install pymoo==0.6.2): its figures are left out."


class Peer(NamedTuple):
    """What pymoo did."""

    version: str
    generations: int
    seconds: float
    hypervolume: float


def is_there() -> bool:
    """Whether pymoo can be imported."""
    return importlib.util.find_spec("pymoo") is not None


def run(instance: Instance, limit_s: float, *, size: int, seed: int) -> Peer:
    """Let pymoo search for so long."""
    archive = Archive(instance.job.size)
    known, scale, count = problem(instance), scales(instance), instance.job.size
    slots = np.repeat(np.arange(len(instance.node_ids)), instance.slots)

    def judge(permutations: Any, out: dict[str, Any]) -> None:
        out["F"] = losses(
            evaluate_all(known, np.ascontiguousarray(slots[permutations[:, :count]])) / scale
        )

    def keep(algorithm: Any) -> None:
        points = algorithm.opt.get("F")
        archive.offer(points, np.zeros((len(points), count), dtype=np.int64))

    whole = np.arange(slots.size)[None]
    judge(whole, {})  # compiles
    result = importlib.import_module("pymoo.optimize").minimize(
        _problem(slots.size, judge),
        _algorithm(size),
        ("time", f"00:{int(limit_s) // 60:02d}:{int(limit_s) % 60:02d}"),
        callback=keep,
        seed=seed,
    )
    version = importlib.import_module("pymoo").__version__
    return Peer(version, result.algorithm.n_gen - 1, result.exec_time, archive.hypervolume())


def _problem(variables: int, judge: Any) -> Any:
    base = importlib.import_module("pymoo.core.problem").Problem

    class Placements(base):  # type: ignore[misc, valid-type] # pymoo has no types
        def __init__(self) -> None:
            super().__init__(n_var=variables, n_obj=3, xl=0, xu=variables - 1, vtype=int)

        def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:
            judge(x, out)

    return Placements()


def _algorithm(size: int) -> Any:
    operators = "pymoo.operators."
    return importlib.import_module("pymoo.algorithms.moo.nsga2").NSGA2(
        pop_size=size,
        sampling=importlib.import_module(f"{operators}sampling.rnd").PermutationRandomSampling(),
        crossover=importlib.import_module(f"{operators}crossover.ox").OrderCrossover(),
        mutation=importlib.import_module(f"{operators}mutation.inversion").InversionMutation(),
    )
