"""Loads of a comparison, without a database."""

from apps.testbed.core.lab import LabSetting
from apps.testbed.core.lab_loads import Roles, roles_of
from tests.testbed.core.test_lab_bundle import plan_with

TARCIL, RANDOM = {"policy": "tarcil"}, {"policy": "random"}
TRUTH = TARCIL | {"profiles": "true"}


def setting(name: str, options: dict[str, str], load: float = 1.0) -> LabSetting:
    return LabSetting(name, options if load == 1.0 else {**options, "arrival_scale": load})


def test_each_load_has_its_own_baseline_and_bound() -> None:
    plan = plan_with(
        settings=(
            setting("t", TARCIL), setting("r", RANDOM), setting("b", TRUTH),
            setting("r2", RANDOM, 2.0), setting("t2", TARCIL, 2.0), setting("r05", RANDOM, 0.5),
        ),
        baseline="r",
        bound="b",
    )  # fmt: skip
    assert roles_of(plan) == (
        Roles(("t", "r", "b"), (1, 2), "r", "b", 1.0),
        Roles(("r05",), (1, 2), "r05", None, 0.5),
        Roles(("r2", "t2"), (1, 2), "r2", None, 2.0),
    )


def test_without_a_baseline_at_a_load_all_are_compared_with_the_one() -> None:
    plan = plan_with(
        settings=(setting("t", TARCIL), setting("r", RANDOM), setting("t2", TARCIL, 2.0)),
        baseline="r",
    )
    assert roles_of(plan) == (Roles(("t", "r", "t2"), (1, 2), "r", None, 1.0),)
