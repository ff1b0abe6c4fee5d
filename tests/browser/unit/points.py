"""A small front for the unit tests of the Calibrate scripts."""

from typing import Any

# Placement 10 has the least power, 30 the most diversity, 20 lies between, 40 is worse than 20.
FRONT = {
    "version": 1,
    "points": 4,
    "index": [10, 20, 30, 40],
    "raw": {
        "P": [1000, 1500, 2000, 1600],
        "D": [10, 50, 90, 40],
        "C": [1, 2, 3, 4],
    },
    "normalised": {
        "P": [0.1, 0.5, 0.9, 0.6],
        "D": [0.1, 0.5, 0.9, 0.4],
        "C": [0.5, 0.5, 0.5, 0.6],
    },
    "nodes_on": [1, 2, 3, 4],
    "jobs_protected": [0, 1, 2, 3],
    "jobs_exposed": [3, 2, 1, 0],
    "jobs_split": [0, 0, 0, 1],
    "worst_job": [None, None, None, None],
}
# Defines `model` with the front and an empty draft, and `actions`, the changes announced.
PREPARE = """
    const { model } = await load("calibrate/model.js");
    const { Points } = await load("calibrate/points.js");
    const { Draft } = await load("calibrate/draft.js");
    const actions = [];
    sessionStorage.clear();
    model.points = new Points(argument.front);
    model.draft = new Draft("unit", (action) => actions.push(action));
    const unselected = { lasso: null, between: null, ranges: {} };
    Object.assign(model, { front: { id: "f" }, version: 1, ...unselected });
"""


def with_front(**arguments: Any) -> dict[str, Any]:
    return {"front": FRONT, **arguments}
