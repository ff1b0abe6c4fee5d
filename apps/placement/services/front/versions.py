"""Record the versions, the history and the progress of a running front search."""

import json
import zlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from django.db import transaction

from apps.inventory.core.snapshot import Ints
from apps.operations.core.states import Topic
from apps.operations.services import (
    NewEvent,
    advance_operation,
    owned_operation,
    record_events,
)
from apps.placement.core.front import archive as fronts
from apps.placement.core.front.facts import NO_JOB, placement_facts
from apps.placement.core.front.moments import split_by_moment
from apps.placement.core.front.nsga2 import FrontProgress
from apps.placement.core.problem.instance import Instance
from apps.placement.models import Front, FrontVersion
from apps.placement.selectors.fronts import assignments_of

FIRST_VERSION_S: Final = 0.3
# the pause between two versions is the largest of the three
MIN_PAUSE_S: Final = 2.0
_WRITE_TIME_FACTOR: Final = 10.0  # times the time to write a version
_ELAPSED_SHARE: Final = 0.05  # of the elapsed time: about a hundred versions in an hour
_PROGRESS_INTERVAL_S: Final = 1.0
_MAX_HISTORY: Final = 400
_MIN_BUDGET_S: Final = 1.0  # for a search that was interrupted
_COMPRESSION: Final = 1  # the fastest level of zlib: the search waits for it


class VersionRecorder:
    """Records the results of one search; the search calls it a few times per second.

    Attributes
    ----------
    is_stopped : whether the search should end
    remaining_s : of the budget; an interrupted search continues with the rest
    """

    def __init__(
        self, front: Front, instances: Sequence[Instance], clock: Callable[[], float]
    ) -> None:
        self.is_stopped = False
        self._front, self._instances, self._clock = front, instances, clock
        last = FrontVersion.objects.filter(front=front).order_by("number").last()
        self._last = last
        self._before_s = last.seconds if last else 0.0
        self._before_generations = last.generations if last else 0
        self.remaining_s = max(front.budget_s - self._before_s, _MIN_BUDGET_S)
        self._next_version_s, self._next_progress_s, self._next_history_s = (
            FIRST_VERSION_S,
            0.0,
            0.0,
        )
        self._history_interval_s = 0.0
        self._history: list[dict[str, Any]] = list(front.history)

    def starts(self) -> list[Ints]:
        """Return the placements found before an interruption."""
        return list(assignments_of(self._last.pk)) if self._last else []

    def on_progress(self, progress: FrontProgress) -> None:
        """Add to the history and report progress, each at its interval."""
        if progress.seconds >= self._next_history_s:
            self._next_history_s = progress.seconds + self._history_interval_s
            self._add_to_history(progress)
        if progress.seconds >= self._next_progress_s:
            self._next_progress_s = progress.seconds + _PROGRESS_INTERVAL_S
            self._report(progress)

    def on_version(self, progress: FrontProgress, build: Callable[[], fronts.ParetoFront]) -> None:
        """Write a version if one is due and the result changed."""
        if progress.seconds < self._next_version_s or not self._has_changed(progress):
            return
        began = self._clock()
        self._write(build())
        write_s = self._clock() - began
        elapsed_s = self._before_s + progress.seconds
        pause_s = max(MIN_PAUSE_S, _WRITE_TIME_FACTOR * write_s, _ELAPSED_SHARE * elapsed_s)
        self._next_version_s = progress.seconds + write_s + pause_s

    def finish(self, result: fronts.ParetoFront) -> int:
        """Write the last version unless it equals the previous one; returns its number."""
        progress = FrontProgress(
            result.seconds, result.generations, result.hypervolume, result.points
        )
        self._add_to_history(progress)
        if (
            self._last is None
            or self._has_changed(progress)
            or result.is_exact != self._last.is_exact
        ):
            self._last = self._write(result)
        else:
            Front.objects.filter(pk=self._front.pk).update(history=self._history)
        self._advance(progress)  # its message names the last generation
        return self._last.number

    def _has_changed(self, progress: FrontProgress) -> bool:
        if self._last is None:
            return True
        previous = (self._last.points, self._last.hypervolume)
        return previous != (progress.points, progress.hypervolume)

    def _add_to_history(self, progress: FrontProgress) -> None:
        self._history.append(
            {
                "seconds": round(self._before_s + progress.seconds, 3),
                "generation": self._before_generations + progress.generations,
                "hypervolume": progress.hypervolume,
                "points": progress.points,
            }
        )
        if len(self._history) > _MAX_HISTORY:
            self._history = self._history[:-1:2] + self._history[-1:]
            self._history_interval_s = max(2.0 * self._history_interval_s, 0.1)

    def _report(self, progress: FrontProgress) -> None:
        self.is_stopped = not self._advance(progress) or self.is_stopped

    def _advance(self, progress: FrontProgress) -> bool:
        """Store how far the search is; returns whether it may go on."""
        share = progress.seconds / self.remaining_s
        generation = self._before_generations + progress.generations
        points = "1 point" if progress.points == 1 else f"{progress.points:,} points"
        message = f"generation {generation:,}, {points}"
        return advance_operation(
            self._front.operation, progress=min(int(100 * share), 99), message=message
        )

    def _write(self, result: fronts.ParetoFront) -> FrontVersion:
        number = 1 if self._last is None else self._last.number + 1
        row = FrontVersion(
            front=self._front,
            number=number,
            points=result.points,
            shown=len(result.raw),
            generations=self._before_generations + result.generations,
            seconds=self._before_s + result.seconds,
            hypervolume=result.hypervolume,
            is_exact=result.is_exact,
            raw=result.raw.tobytes(),
            normalised=result.normalised.tobytes(),
            assignments=zlib.compress(result.assignments.astype("int32").tobytes(), _COMPRESSION),
            facts=zlib.compress(json.dumps(_columns(self._instances, result)).encode()),
        )
        with transaction.atomic():
            owned_operation(self._front.operation)
            row.save(force_insert=True)
            Front.objects.filter(pk=self._front.pk).update(history=self._history)
            record_events([_event(self._front, row)])
        self._last = row
        return row


def _columns(instances: Sequence[Instance], result: fronts.ParetoFront) -> dict[str, Any]:
    """Return the facts of each point as columns; see `selectors.fronts.Points`.

    Over several moments, numbers are means and the worst job is that of the last moment with one.
    """
    parts = split_by_moment(instances, result.assignments)
    counted = [placement_facts(each, part) for each, part in zip(instances, parts, strict=True)]
    worst: list[str | None] = [None] * len(result.assignments)
    for instance, facts in zip(instances, counted, strict=True):
        for point in np.flatnonzero(facts.worst_job != NO_JOB).tolist():
            worst[point] = instance.job_ids[facts.worst_job[point]]
    return {
        **{
            name: np.rint(np.mean([getattr(facts, name) for facts in counted], axis=0))
            .astype(np.int64)
            .tolist()
            for name in ("nodes_on", "jobs_protected", "jobs_exposed", "jobs_split")
        },
        "worst_job": worst,
        "standing": fronts.representative_rank(fronts.losses(result.normalised)).tolist(),
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
