"""Previews: a first answer at once, better ones in its place, nothing written."""

import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache

from apps.common.core.errors import NotFoundError
from apps.operations.models import Event, Operation
from apps.placement.core.replacing import improve
from apps.placement.models import Move, Plan
from apps.placement.plan_tasks import preview, preview_by_worker
from apps.placement.services import previews
from apps.placement.services.previews import (
    PreviewState,
    open_preview,
    read_preview,
    search_preview,
    stop_preview,
)
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.clear()


def test_the_answer_says_what_the_weights_would_do(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    made = preview_by_worker(stage.by.pk, world.WEIGHTS, [], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert found.state is PreviewState.DONE
    assert found.answer is not None
    assert (found.answer["moves"], found.answer["refined"]) == (1, 1)
    # two half-used servers become one: one 40 W of idling less
    assert found.answer["before"]["watts"] - found.answer["after"]["watts"] == pytest.approx(40.0)
    assert found.answer["F_after"] < found.answer["F_before"]
    assert found.answer["seconds"] < 2.0


def test_a_first_answer_comes_before_the_best_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.running("stays", (stage.servers[2], 1))
    monkeypatch.setattr(previews, "FIRST_S", 0.0)
    monkeypatch.setattr(previews, "LEAST_S", 0.0)
    told: list[int] = []
    leave = previews._leave

    def overheard(of: UUID, state: PreviewState, answer: Any, problem: str = "") -> None:
        told.append(-1 if answer is None else answer["moves"])
        leave(of, state, answer, problem)

    monkeypatch.setattr(previews, "_leave", overheard)
    made = preview_by_worker(stage.by.pk, world.WEIGHTS, [], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert found.state is PreviewState.DONE
    assert (told[:2], told[-1]) == ([-1, 0], 1)  # waiting, nothing found yet, the answer


def test_nothing_is_written(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    before = Event.objects.count()
    preview_by_worker(stage.by.pk, world.WEIGHTS, [], 5.0)
    assert [Plan.objects.count(), Move.objects.count(), Operation.objects.count()] == [0, 0, 0]
    assert Event.objects.count() == before


def test_where_nothing_pays_the_answer_is_to_stay(stage: Stage) -> None:
    made = preview_by_worker(stage.by.pk, world.WEIGHTS, [], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert found.answer is not None
    assert (found.answer["moves"], found.answer["F_before"]) == (0, found.answer["F_after"])


def test_it_looks_at_the_racks_named_and_no_others(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    made = preview_by_worker(stage.by.pk, world.WEIGHTS, ["rack-1"], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert found.answer is not None
    assert found.answer["moves"] == 0


def test_a_preview_stopped_before_it_began_is_not_searched(stage: Stage) -> None:
    made = open_preview(stage.by.pk)
    stop_preview(made, by=stage.by.pk)
    search_preview(made, world.WEIGHTS, [], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert (found.state, found.answer) == (PreviewState.STOPPED, None)


def test_a_search_stops_when_told_to_and_keeps_what_it_found(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.running("stays", (stage.servers[2], 1))
    made = open_preview(stage.by.pk)

    def stopped_meanwhile(*given: object, **named: object) -> object:
        found = improve(*given, **named)  # type: ignore[arg-type]  # handed on
        stop_preview(made, by=stage.by.pk)
        return found

    monkeypatch.setattr(previews, "improve", stopped_meanwhile)
    monkeypatch.setattr(previews, "LOOK_S", 0.0)
    search_preview(made, world.WEIGHTS, [], 5.0)
    found = read_preview(made, by=stage.by.pk)
    assert found.state is PreviewState.STOPPED
    assert found.answer is not None
    assert found.answer["moves"] == 1


def test_asking_again_stops_the_last_preview_of_the_same_person(stage: Stage) -> None:
    first = open_preview(stage.by.pk)
    open_preview(stage.by.pk)
    assert read_preview(first, by=stage.by.pk).state is PreviewState.STOPPED


def test_previews_of_others_go_on(stage: Stage) -> None:
    first = open_preview(stage.by.pk)
    open_preview(uuid4())
    assert read_preview(first, by=stage.by.pk).state is PreviewState.WAITING


def test_a_search_nobody_looks_at_stops(stage: Stage) -> None:
    made = open_preview(stage.by.pk)
    cache.delete(f"placement.preview.{made.hex}.seen")
    search_preview(made, world.WEIGHTS, [], 5.0)
    assert read_preview(made, by=stage.by.pk).state is PreviewState.STOPPED


def test_a_preview_is_its_owners(stage: Stage) -> None:
    made = open_preview(stage.by.pk)
    with pytest.raises(NotFoundError):
        read_preview(made, by=uuid4())


def test_two_workers_search_it_once(stage: Stage) -> None:
    made = open_preview(stage.by.pk)
    search_preview(made, world.WEIGHTS, [], 5.0)
    first = read_preview(made, by=stage.by.pk)
    search_preview(made, {"P": 0.0, "D": 1.0, "C": 0.0}, [], 5.0)
    assert read_preview(made, by=stage.by.pk) == first


def test_a_search_that_breaks_says_so(stage: Stage) -> None:
    made = open_preview(stage.by.pk)
    preview(str(made), {"P": 1.0}, ["no such rack"], 5.0)
    found = read_preview(UUID(str(made)), by=stage.by.pk)
    assert (found.state, found.problem[:16]) == (PreviewState.FAILED, "The search broke")


def test_a_preview_that_no_worker_takes_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews, "SOON_S", -0.99)
    made = open_preview(stage.by.pk)
    time.sleep(0.05)
    found = read_preview(made, by=stage.by.pk)
    assert (found.state, found.problem) == (PreviewState.FAILED, "No worker was free: ask again.")


def test_a_preview_whose_worker_is_killed_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> Any:
        raise SystemExit

    made = open_preview(stage.by.pk)
    monkeypatch.setattr(previews, "ALIVE_S", 0.05)
    monkeypatch.setattr(previews, "improve", killed)
    previews._leave(made, PreviewState.SEARCHING, None)
    with pytest.raises(SystemExit):
        search_preview(made, world.WEIGHTS, [], 5.0)
    time.sleep(0.1)
    found = read_preview(made, by=stage.by.pk)
    assert (found.state, found.problem) == (PreviewState.FAILED, "Its worker was lost: ask again.")
