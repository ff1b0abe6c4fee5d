"""What a search has found, written down while it goes on: versions, history, progress."""

import json
import zlib
from collections.abc import Callable
from typing import Any, Final

from django.db import transaction

from apps.inventory.core.snapshot import Ints
from apps.operations.core.states import Topic
from apps.operations.services import (
    NewEvent,
    advance_operation,
    owned_operation,
    record_events,
)
from apps.placement.core import front as fronts
from apps.placement.core.front_facts import NOBODY, facts
from apps.placement.core.instance import Instance
from apps.placement.core.nsga2 import Progress
from apps.placement.models import Front, FrontVersion
from apps.placement.selectors.fronts import assignments_of

FIRST_S: Final = 0.3  # after so long there is a first version
EVERY_S: Final = 2.0  # and then another so often, while it gets better
_DEARER: Final = 10.0  # times what writing one takes, at least, between two
_LATER: Final = 0.05  # of the time that has passed, at least: an hour has a hundred versions
_TELL_S: Final = 1.0  # between two reports of progress
_MOST_LOOKS: Final = 400  # kept of the history
_LEAST_S: Final = 1.0  # for a search that was cut short
_PACKING: Final = 1  # zlib's fastest: the search waits for it


class Keeper:
    """Writes down what one search finds; the search calls it, a few times a second.

    Attributes
    ----------
    is_stopped : the search should end
    left_s : of the budget; a search that was cut short goes on with what is left of it
    """

    def __init__(self, front: Front, instance: Instance, clock: Callable[[], float]) -> None:
        self.is_stopped = False
        self._front, self._instance, self._clock = front, instance, clock
        last = FrontVersion.objects.filter(front=front).order_by("number").last()
        self._last = last
        self._before_s = last.seconds if last else 0.0
        self._before_generations = last.generations if last else 0
        self.left_s = max(front.budget_s - self._before_s, _LEAST_S)
        self._next_version_s, self._next_tell_s, self._next_look_s = FIRST_S, 0.0, 0.0
        self._look_s = 0.0
        self._history: list[dict[str, Any]] = list(front.history)

    def starts(self) -> list[Ints]:
        """Return what was found before."""
        return list(assignments_of(self._last.pk)) if self._last else []

    def watch(self, progress: Progress) -> None:
        """Note how far it is, and from time to time say so."""
        if progress.seconds >= self._next_look_s:
            self._next_look_s = progress.seconds + self._look_s
            self._note(progress)
        if progress.seconds >= self._next_tell_s:
            self._next_tell_s = progress.seconds + _TELL_S
            self._tell(progress)

    def keep(self, progress: Progress, make: Callable[[], fronts.Front]) -> None:
        """Write a version where it is time for one and there is something new in it."""
        if progress.seconds < self._next_version_s or not self._is_news(progress):
            return
        began = self._clock()
        self._write(make())
        took = self._clock() - began
        passed = self._before_s + progress.seconds
        pause = max(EVERY_S, _DEARER * took, _LATER * passed)
        self._next_version_s = progress.seconds + took + pause

    def end(self, found: fronts.Front) -> int:
        """Write the last version, unless it is the one before; returns its number."""
        progress = Progress(found.seconds, found.generations, found.hypervolume, found.points)
        self._note(progress)
        if self._last is None or self._is_news(progress) or found.is_exact != self._last.is_exact:
            return self._write(found).number
        Front.objects.filter(pk=self._front.pk).update(history=self._history)
        return self._last.number

    def _is_news(self, progress: Progress) -> bool:
        if self._last is None:
            return True
        before = (self._last.points, self._last.hypervolume)
        return before != (progress.points, progress.hypervolume)

    def _note(self, progress: Progress) -> None:
        self._history.append(
            {
                "seconds": round(self._before_s + progress.seconds, 3),
                "generation": self._before_generations + progress.generations,
                "hypervolume": progress.hypervolume,
                "points": progress.points,
            }
        )
        if len(self._history) > _MOST_LOOKS:
            self._history = self._history[:-1:2] + self._history[-1:]
            self._look_s = max(2.0 * self._look_s, 0.1)

    def _tell(self, progress: Progress) -> None:
        share = progress.seconds / self.left_s
        generation = self._before_generations + progress.generations
        message = f"generation {generation:,}, {progress.points:,} points"
        goes_on = advance_operation(
            self._front.operation, progress=min(int(100 * share), 99), message=message
        )
        self.is_stopped = self.is_stopped or not goes_on

    def _write(self, found: fronts.Front) -> FrontVersion:
        number = 1 if self._last is None else self._last.number + 1
        row = FrontVersion(
            front=self._front,
            number=number,
            points=found.points,
            shown=len(found.raw),
            generations=self._before_generations + found.generations,
            seconds=self._before_s + found.seconds,
            hypervolume=found.hypervolume,
            is_exact=found.is_exact,
            raw=found.raw.tobytes(),
            normalised=found.normalised.tobytes(),
            assignments=zlib.compress(found.assignments.astype("int32").tobytes(), _PACKING),
            facts=zlib.compress(json.dumps(_columns(self._instance, found)).encode()),
        )
        with transaction.atomic():
            owned_operation(self._front.operation)
            row.save(force_insert=True)
            Front.objects.filter(pk=self._front.pk).update(history=self._history)
            record_events([_event(self._front, row)])
        self._last = row
        return row


def _columns(instance: Instance, found: fronts.Front) -> dict[str, Any]:
    """Return what is told of each point, by name; see `selectors.fronts.Points`."""
    counted = facts(instance, found.assignments)
    worst = [None if job == NOBODY else instance.job_ids[job] for job in counted.worst_job]
    return {
        "nodes_on": counted.nodes_on.tolist(),
        "jobs_protected": counted.jobs_protected.tolist(),
        "jobs_exposed": counted.jobs_exposed.tolist(),
        "jobs_split": counted.jobs_split.tolist(),
        "worst_job": worst,
        "standing": fronts.standing(fronts.losses(found.normalised)).tolist(),
    }


def _event(front: Front, version: FrontVersion) -> NewEvent:
    return NewEvent(
        topic=Topic.FRONTS,
        kind="front.version",
        subject=str(front.pk),
        data={
            "name": str(front),
            "version": version.number,
            "points": version.points,
            "hypervolume": version.hypervolume,
            "exact": version.is_exact,
        },
    )
