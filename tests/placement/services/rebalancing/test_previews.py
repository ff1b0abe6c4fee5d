"""Previews: a quick first answer, refined by better ones; no rows are written."""

import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache

from apps.common.core.errors import NotFoundError
from apps.operations.models import Event, Operation
from apps.placement.core.rebalancing.planner import improve
from apps.placement.models import Plan, PlannedMigration
from apps.placement.services.rebalancing import previews
from apps.placement.services.rebalancing.previews import (
    PreviewState,
    open_preview,
    read_preview,
    search_preview,
    stop_preview,
)
from apps.placement.tasks.plans import run_preview, start_preview
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


def test_the_answer_predicts_the_effect_of_the_weights(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    preview_id = start_preview(stage.by.pk, world.WEIGHTS, [], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert preview.state is PreviewState.DONE
    assert preview.answer is not None
    assert (preview.answer["moves"], preview.answer["refined"]) == (1, 1)
    # one of two half-used servers becomes idle: 40 W less
    assert preview.answer["before"]["watts"] - preview.answer["after"]["watts"] == pytest.approx(
        40.0
    )
    assert preview.answer["F_after"] < preview.answer["F_before"]
    assert preview.answer["seconds"] < 2.0


def test_the_answer_has_the_curve_of_what_migrations_reach(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    preview_id = start_preview(stage.by.pk, world.WEIGHTS, [], 5.0)
    answer = read_preview(preview_id, by=stage.by.pk).answer
    assert answer is not None
    reach = answer["reach"]
    assert (reach["moves"], reach["fallen"]) == ([0, 1], [0, 0])
    assert [reach["watts"][0] - reach["watts"][1], reach["seconds"][1]] == pytest.approx(
        [40.0, answer["move_seconds"]]
    )
    assert (reach["F"][0], reach["F"][-1]) == (answer["F_before"], answer["F_after"])
    assert reach["meaning"]


def test_a_first_answer_comes_before_the_best_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    monkeypatch.setattr(previews, "FIRST_ANSWER_S", 0.0)
    monkeypatch.setattr(previews, "MIN_SEARCH_S", 0.0)
    stored: list[int] = []
    leave = previews._store

    def recording(of: UUID, state: PreviewState, answer: Any, problem: str = "") -> None:
        stored.append(-1 if answer is None else answer["moves"])
        leave(of, state, answer, problem)

    monkeypatch.setattr(previews, "_store", recording)
    preview_id = start_preview(stage.by.pk, world.WEIGHTS, [], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert preview.state is PreviewState.DONE
    assert (stored[:2], stored[-1]) == ([-1, 0], 1)  # waiting, no bundle yet, the answer


def test_a_preview_writes_no_rows(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    before = Event.objects.count()
    start_preview(stage.by.pk, world.WEIGHTS, [], 5.0)
    assert [Plan.objects.count(), PlannedMigration.objects.count(), Operation.objects.count()] == [
        0,
        0,
        0,
    ]
    assert Event.objects.count() == before


def test_without_gain_the_answer_keeps_the_placement(stage: Stage) -> None:
    preview_id = start_preview(stage.by.pk, world.WEIGHTS, [], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert preview.answer is not None
    assert (preview.answer["moves"], preview.answer["F_before"]) == (0, preview.answer["F_after"])


def test_a_preview_is_limited_to_the_named_racks(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    preview_id = start_preview(stage.by.pk, world.WEIGHTS, ["rack-1"], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert preview.answer is not None
    assert preview.answer["moves"] == 0


def test_a_preview_stopped_before_it_began_is_not_searched(stage: Stage) -> None:
    preview_id = open_preview(stage.by.pk)
    stop_preview(preview_id, by=stage.by.pk)
    search_preview(preview_id, world.WEIGHTS, [], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert (preview.state, preview.answer) == (PreviewState.STOPPED, None)


def test_a_stopped_search_keeps_its_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    preview_id = open_preview(stage.by.pk)

    def stopped_meanwhile(*args: object, **named: object) -> object:
        outcome = improve(*args, **named)  # type: ignore[arg-type]  # passed through
        stop_preview(preview_id, by=stage.by.pk)
        return outcome

    monkeypatch.setattr(previews, "improve", stopped_meanwhile)
    monkeypatch.setattr(previews, "STOP_POLL_S", 0.0)
    search_preview(preview_id, world.WEIGHTS, [], 5.0)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert preview.state is PreviewState.STOPPED
    assert preview.answer is not None
    assert preview.answer["moves"] == 1


def test_a_new_preview_stops_the_previous_one_of_its_owner(stage: Stage) -> None:
    first = open_preview(stage.by.pk)
    open_preview(stage.by.pk)
    assert read_preview(first, by=stage.by.pk).state is PreviewState.STOPPED


def test_a_new_preview_does_not_stop_those_of_others(stage: Stage) -> None:
    first = open_preview(stage.by.pk)
    open_preview(uuid4())
    assert read_preview(first, by=stage.by.pk).state is PreviewState.WAITING


def test_a_search_that_nobody_polls_stops(stage: Stage) -> None:
    preview_id = open_preview(stage.by.pk)
    cache.delete(f"placement.preview.{preview_id.hex}.seen")
    search_preview(preview_id, world.WEIGHTS, [], 5.0)
    assert read_preview(preview_id, by=stage.by.pk).state is PreviewState.STOPPED


def test_a_preview_is_visible_to_its_owner_only(stage: Stage) -> None:
    preview_id = open_preview(stage.by.pk)
    with pytest.raises(NotFoundError):
        read_preview(preview_id, by=uuid4())


def test_a_preview_is_searched_once(stage: Stage) -> None:
    preview_id = open_preview(stage.by.pk)
    search_preview(preview_id, world.WEIGHTS, [], 5.0)
    first = read_preview(preview_id, by=stage.by.pk)
    search_preview(preview_id, {"P": 0.0, "D": 1.0, "C": 0.0}, [], 5.0)
    assert read_preview(preview_id, by=stage.by.pk) == first


def test_an_internal_error_fails_the_preview(stage: Stage) -> None:
    preview_id = open_preview(stage.by.pk)
    run_preview(str(preview_id), {"P": 1.0}, ["no such rack"], 5.0)
    preview = read_preview(UUID(str(preview_id)), by=stage.by.pk)
    assert (preview.state, preview.problem[:17]) == (PreviewState.FAILED, "The search failed")


def test_a_preview_without_a_free_worker_fails(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "START_TIMEOUT_S", -0.99)
    preview_id = open_preview(stage.by.pk)
    time.sleep(0.05)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert (preview.state, preview.problem) == (
        PreviewState.FAILED,
        "No worker was free. Try again.",
    )


def test_a_preview_whose_worker_dies_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any, **__: Any) -> Any:
        raise SystemExit

    preview_id = open_preview(stage.by.pk)
    monkeypatch.setattr(previews, "HEARTBEAT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(previews, "improve", killed)
    previews._store(preview_id, PreviewState.SEARCHING, None)
    with pytest.raises(SystemExit):
        search_preview(preview_id, world.WEIGHTS, [], 5.0)
    time.sleep(0.1)
    preview = read_preview(preview_id, by=stage.by.pk)
    assert (preview.state, preview.problem) == (
        PreviewState.FAILED,
        "The worker stopped responding. Try again.",
    )
