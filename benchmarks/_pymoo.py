"""pymoo's NSGA-II on the same placements, for comparison if it is installed.

A genome is a permutation of slots; its first c slots hold the containers. Order crossover,
inversion mutation, objectives by our compiled kernel. The archive of all solutions found counts,
not only the last population.
"""

import importlib
import importlib.util
from typing import Any, NamedTuple

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.placement.core.front.archive import Archive, losses
from apps.placement.core.problem.evaluator import evaluate_all, pack
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales

NOT_INSTALLED = "pymoo is not installed here (pip install pymoo==0.6.2): no comparison with it."


class PeerResult(NamedTuple):
    """Result of one run of pymoo."""

    version: str
    generations: int
    seconds: float
    hypervolume: float


def is_installed() -> bool:
    """Whether pymoo can be imported."""
    return importlib.util.find_spec("pymoo") is not None


def run(instance: Instance, limit_s: float, *, size: int, seed: int) -> PeerResult:
    """Run pymoo for ``limit_s`` seconds."""
    archive = Archive(instance.job.size)
    packed, scale, count = pack(instance), scales(instance), instance.job.size
    slots = np.repeat(np.arange(len(instance.node_ids)), instance.slots)

    def evaluate_batch(permutations: Any, out: dict[str, Any]) -> None:
        out["F"] = losses(
            evaluate_all(packed, as_readonly(slots[permutations[:, :count]])) / scale
        )

    def record(algorithm: Any) -> None:
        points = algorithm.opt.get("F")
        archive.offer(points, np.zeros((len(points), count), dtype=np.int64))

    identity = np.arange(slots.size)[None]
    evaluate_batch(identity, {})  # compiles
    result = importlib.import_module("pymoo.optimize").minimize(
        _problem(slots.size, evaluate_batch),
        _algorithm(size),
        ("time", f"00:{int(limit_s) // 60:02d}:{int(limit_s) % 60:02d}"),
        callback=record,
        seed=seed,
    )
    version = importlib.import_module("pymoo").__version__
    return PeerResult(version, result.algorithm.n_gen - 1, result.exec_time, archive.hypervolume())


def _problem(variables: int, evaluate_batch: Any) -> Any:
    base = importlib.import_module("pymoo.core.problem").Problem

    class Placements(base):  # type: ignore[misc, valid-type] # pymoo has no types
        def __init__(self) -> None:
            super().__init__(n_var=variables, n_obj=3, xl=0, xu=variables - 1, vtype=int)

        def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:
            evaluate_batch(x, out)

    return Placements()


def _algorithm(size: int) -> Any:
    operators = "pymoo.operators."
    return importlib.import_module("pymoo.algorithms.moo.nsga2").NSGA2(
        pop_size=size,
        sampling=importlib.import_module(f"{operators}sampling.rnd").PermutationRandomSampling(),
        crossover=importlib.import_module(f"{operators}crossover.ox").OrderCrossover(),
        mutation=importlib.import_module(f"{operators}mutation.inversion").InversionMutation(),
    )
