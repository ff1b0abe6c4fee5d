"""Reads of measured pairs, and the predictions and servers for new ones."""

import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import Q, QuerySet

from apps.classification import selectors as classification
from apps.classification.core.estimates import Estimate
from apps.classification.core.scores import Scores, scores_of_profile
from apps.common.core.errors import ConflictError, NotFoundError
from apps.inventory.core.backends import EMULATED, Capability, backends_with
from apps.inventory.models import Server
from apps.operations.core.states import TERMINAL
from apps.testbed.core.pairs.prediction import predicted_slowdown
from apps.testbed.models import MeasuredPair
from apps.workloads.core.lifecycle import TERMINAL_STATES

KIND: Final = "pair.measured"  # of the operations


class PairServer(NamedTuple):
    """The kind of server that a pair runs on: its platform, and the units of one server."""

    platform: str
    units: int


def pairs() -> QuerySet[MeasuredPair]:
    """Return all pairs, with operation and job."""
    return MeasuredPair.objects.select_related("operation", "job", "created_by")


def pair_by_id(key: UUID) -> MeasuredPair:
    """Return a pair.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    found = pairs().filter(pk=key).first()
    if found is None:
        raise NotFoundError(f"There is no measured pair {key}.")
    return found


def open_pairs() -> QuerySet[MeasuredPair]:
    """Return pairs whose operation or job has not ended, oldest first."""
    has_ended = Q(operation__status__in=TERMINAL)
    is_stopped = Q(job__isnull=True) | Q(job__state__in=TERMINAL_STATES)
    return pairs().exclude(has_ended & is_stopped).order_by("created_at", "id")


def server_for_pair(units: int, *, is_emulated: bool, platform: str | None) -> PairServer:
    """Return the smallest server on which both applications fit, of a given platform or of any.

    Raises
    ------
    ConflictError : there is none.
    """
    wanted = {EMULATED} if is_emulated else backends_with(Capability.COMMANDS)
    rows = Server.objects.filter(backend__in=wanted, cores__gte=max(2, units))
    if platform is not None:
        rows = rows.filter(platform__name=platform)
    smallest = rows.order_by("cores", "platform__rank").values_list("platform__name", "cores")
    found = smallest.first()
    if found is None:
        kind = "emulated server" if is_emulated else "server that runs commands"
        of = "" if platform is None else f" of the platform {platform}"
        raise ConflictError(f"No {kind}{of} has {max(2, units)} units.")
    return PairServer(*found)


def platforms_for_pairs() -> list[str]:
    """Return the platforms with a server of two or more units that can run a pair, by name."""
    able = backends_with(Capability.COMMANDS) | {EMULATED}
    rows = Server.objects.filter(backend__in=able, cores__gte=2)
    return sorted(set(rows.values_list("platform__name", flat=True)))


def predictions(names: Sequence[str], units: Sequence[int], server_units: int) -> list[Any]:
    """Return the predicted slowdown of both applications, as JSON; null without any score.

    ``unmeasured`` lists the sources whose tolerance is inferred or assumed, ``profile`` says
    whether a profile was used or only measured cells.
    """
    found = [_scores(name) for name in names]
    result: list[Any] = []
    for side, other in ((0, 1), (1, 0)):
        own, neighbour = found[side], found[other]
        if own is None or neighbour is None:
            missing = [name for name, known in zip(names, found, strict=True) if known is None]
            result.append({"missing": sorted(set(missing))})
            continue
        # the same pair gets the same interval
        rng = np.random.default_rng(zlib.crc32(f"{names[side]} {names[other]}".encode()))
        slowdown = predicted_slowdown(
            own, neighbour, units=units[other], server_units=server_units, rng=rng
        )
        result.append({**slowdown._asdict(), "unmeasured": list(own.unmeasured)})
    return result


def predicted_estimates(pair: MeasuredPair) -> list[Estimate | None]:
    """Return the stored predictions of a pair as values."""
    return [estimate_of(side) if "value" in side else None for side in pair.predictions]


def estimate_of(stored: dict[str, Any]) -> Estimate:
    """Return a stored estimate as a value."""
    return Estimate(stored["value"], stored["low"], stored["high"])


def _scores(name: str) -> Scores | None:
    """Return the scores of an application: of its profile, else its measured cells."""
    profile = classification.profile_named(name)
    if profile is not None:
        return scores_of_profile(profile)
    return classification.program_scores_of(name)
