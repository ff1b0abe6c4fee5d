"""Fronts for tests of pages: small, made up, and stored as a search stores them."""

import json
import zlib
from itertools import count
from typing import Any

import numpy as np

from apps.accounts.models import User
from apps.inventory.core.snapshot import Floats
from apps.operations.models import Operation
from apps.placement.models import Front, FrontVersion
from tests import factories

SCALES = (50_000.0, 200.0, 400.0)  # watts, points, containers
_numbers = count(1)


def front(*, by: User | None = None, **values: Any) -> Front:
    """A front of 300 containers on 200 servers whose search has ended."""
    defaults: dict[str, Any] = {
        "source": "cluster",
        "cluster_s": 50_000.0,
        "containers": 300,
        "nodes": 200,
        "budget_s": 10.0,
        "seed": 1,
        "scales": dict(zip("PDC", SCALES, strict=True)),
    }
    return Front.objects.create(
        number=next(_numbers),
        operation=Operation.objects.create(
            kind="placement.front", status="succeeded", progress=100, total=100
        ),
        created_by=by or factories.user(),
        **{**defaults, **values},
    )


def version(of: Front, points: Floats | None = None, **values: Any) -> FrontVersion:
    """A version of a front.

    Parameters
    ----------
    points : (k, 3) normalised P, D, C; without them, forty on a convex surface
    """
    normalised = surface(40) if points is None else points
    many = len(normalised)
    facts = {
        "nodes_on": [int(200 * row[0]) for row in normalised],
        "jobs_protected": [int(60 * row[1]) for row in normalised],
        "jobs_exposed": [60 - int(60 * row[1]) for row in normalised],
        "jobs_split": [int(80 * row[2]) for row in normalised],
        "worst_job": [None] * many,
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
        raw=(normalised * SCALES).tobytes(),
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
