"""A front whose placements differ, and prices of energy for its cluster."""

import json
import zlib
from dataclasses import replace

import numpy as np

from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.models import CurveObjective, Front, FrontVersion
from tests.browser.conftest import Visitor
from tests.dashboard import fronts

RNG = np.random.default_rng(11)
# 300 containers on different units of 240 servers with two units each
PLACED = np.array([RNG.permutation(480)[:300] // 2 for _ in range(39)])
RUNNING = replace(fronts.workload(), current=PLACED[0].astype(np.int64))


def create_prices(visitor: Visitor, curve: dict[str, list[float]]) -> None:
    CurveObjective.objects.create(
        name="money",
        label="Energy cost",
        unit="EUR",
        hours=[8, 16],
        curve=curve,
        created_by=visitor.site.world.operator,
    )


def priced_front(visitor: Visitor) -> Front:
    """Return a front with the placements `PLACED`."""
    packed = zlib.compress(json.dumps(instance_to_json(RUNNING)).encode())
    front = fronts.front(by=visitor.site.world.operator, instance=packed)
    cells = zlib.compress(PLACED.astype("int32").tobytes())
    version = fronts.version(front, fronts.pattern())
    FrontVersion.objects.filter(pk=version.pk).update(assignments=cells)
    return front
