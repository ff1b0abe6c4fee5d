"""Small synthetic fronts for page tests, stored as a search stores them."""

import json
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from django.db.models import Max

from apps.accounts.models import User
from apps.inventory.core.snapshot import Floats
from apps.operations.models import Operation
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.core.problem.objectives import scales
from apps.placement.models import Front, FrontVersion
from tests import factories


@cache
def workload() -> Instance:
    """Return the instance of all fronts here."""
    return generate_instance(
        InstanceSpec(containers=300, nodes=240, nodes_per_rack=24, kinds=2), 3
    )


def front(*, by: User | None = None, state: str = "succeeded", **values: Any) -> Front:
    """A front of 300 containers on 240 servers; its search has ended, unless ``state`` differs."""
    of = workload()
    defaults: dict[str, Any] = {
        "source": "cluster",
        "cluster_s": 50_000.0,
        "instance": zlib.compress(json.dumps(instance_to_json(of)).encode()),
        "containers": len(of.container_ids),
        "nodes": len(of.node_ids),
        "budget_s": 10.0,
        "seed": 1,
        "scales": dict(zip("PDC", scales(of).tolist(), strict=True)),
    }
    return Front.objects.create(
        number=1 + (Front.objects.aggregate(last=Max("number"))["last"] or 0),
        operation=Operation.objects.create(
            kind="placement.front", status=state, progress=100, total=100
        ),
        created_by=by or factories.user(),
        **{**defaults, **values},
    )


def version(
    of: Front, points: Floats | None = None, *, worst: Sequence[str] = (), **values: Any
) -> FrontVersion:
    """A version of a front.

    Parameters
    ----------
    points : (k, 3) normalised P, D, C; without them, forty on a convex surface
    worst : ids of jobs that lose most in a placement, in turn; none loses anything without them
    """
    normalised = surface(40) if points is None else points
    many = len(normalised)
    facts = {
        "nodes_on": [int(240 * row[0]) for row in normalised],
        "jobs_protected": [int(60 * row[1]) for row in normalised],
        "jobs_exposed": [60 - int(60 * row[1]) for row in normalised],
        "jobs_split": [int(80 * row[2]) for row in normalised],
        "worst_job": [worst[i % len(worst)] if worst else None for i in range(many)],
        "standing": np.random.default_rng(3).permutation(many).tolist(),
    }
    defaults: dict[str, Any] = {
        "number": of.versions.count() + 1,
        "points": many,
        "shown": many,
        "generations": 120,
        "seconds": 9.5,
        "hypervolume": 0.61,
    }
    return FrontVersion.objects.create(
        front=of,
        raw=(normalised * scales(workload())).tobytes(),
        normalised=normalised.tobytes(),
        assignments=zlib.compress(np.zeros((many, of.containers), dtype="int32").tobytes()),
        facts=zlib.compress(json.dumps(facts).encode()),
        **{**defaults, **values},
    )


def surface(points: int, *, seed: int = 5) -> Floats:
    """(k, 3) normalised P, D, C on the convex surface Σ √loss = 2 of the unit cube."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet((1.0, 1.0, 1.0), size=points)
    losses: Floats = (1.0 - shares) ** 2
    return losses * (1.0, -1.0, 1.0) + (0.0, 1.0, 0.0)


# The paper's own picks give the weights 0.22 : 1 : 0.36, so their spreads are as the inverses of
# those. Numbers 0-8 of `pattern` are nine such picks; the rest of the front lies around them.
SPREAD = {"P": 0.02 / 0.22, "D": 0.02, "C": 0.02 / 0.36}
_RANKS = {
    "P": (0, 5, 2, 7, 4, 1, 6, 3, 8),
    "D": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "C": (8, 0, 7, 1, 6, 2, 3, 4, 5),
}
_CENTRE = {"P": 0.60, "D": 0.70, "C": 0.40}


def pattern(around: int = 30) -> Floats:
    """(9 + around, 3) normalised P, D, C: nine placements that agree on D, and others."""
    steps = np.linspace(-1.0, 1.0, 9)
    unit = steps / steps.std(ddof=1)
    nine = np.array([[_CENTRE[o] + SPREAD[o] * unit[rank] for rank in _RANKS[o]] for o in "PDC"]).T
    rng = np.random.default_rng(7)
    others = np.column_stack(
        [
            rng.uniform(0.30, 0.90, around),
            np.where(rng.random(around) < 0.5, 0.55, 0.82) + rng.uniform(-0.04, 0.04, around),
            rng.uniform(0.05, 0.75, around),
        ]
    )
    points: Floats = np.concatenate([nine, others])
    return points
