"""JSON documents of workload models, version 1 (``docs/traces.md``)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

import numpy as np

from apps.testbed.core.arrival_gaps import MAX_MEMORY, Gaps
from apps.testbed.core.arrivals import HOURS, Diurnal, Modulated, Poisson, Process, Regular
from apps.testbed.core.berth_jobs import KINDS
from apps.testbed.core.workload_model.distributions import (
    FAMILIES,
    Continuous,
    Discrete,
    Distribution,
    Quantiles,
)
from apps.testbed.core.workload_model.model import (
    QUANTITIES,
    JobClass,
    JobStream,
    WorkloadModel,
    WorkloadModelError,
)

FORMAT: Final = "berth-workload"
VERSION: Final = 1
LARGEST: Final = 1e18  # of any number
PROCESSES: Final[dict[str, type[Process]]] = {
    "poisson": Poisson, "regular": Regular, "modulated": Modulated, "diurnal": Diurnal,
    "gaps": Gaps,
}  # fmt: skip
MUST_BE_POSITIVE: Final = frozenset({"work_s", "target_s", "seconds"})
Json = Mapping[str, Any]


def document_of(model: WorkloadModel, distances: list[dict[str, Any]] | None = None) -> Json:
    """JSON of a model, and of its distances to its source."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": model.name,
        "source": model.source,
        "notes": list(model.notes),
        "streams": [_stream_json(stream) for stream in model.streams],
        "distances": distances or [],
    }


def model_of(document: object) -> WorkloadModel:
    """Read a document.

    Raises
    ------
    WorkloadModelError : names the part and what is accepted.
    """
    top = _object(document, "the document")
    if top.get("format") != FORMAT or top.get("version") != VERSION:
        raise WorkloadModelError(
            f"expected format {FORMAT!r} and version {VERSION}, "
            f"not {top.get('format')!r} and {top.get('version')!r}"
        )
    streams = tuple(
        _stream(each, f"streams[{i}]") for i, each in enumerate(_list(top, "streams", "streams"))
    )
    notes = tuple(str(note) for note in top.get("notes", []))
    return WorkloadModel(str(top.get("name", "model")), str(top.get("source", "")), streams, notes)


def _stream_json(stream: JobStream) -> Json:
    kind = next(name for name, each in PROCESSES.items() if isinstance(stream.process, each))
    process = {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in asdict(stream.process).items()
    }
    return {
        "jobs": stream.jobs,
        "start_s": stream.start_s,
        "span_s": stream.span_s,
        "process": {"kind": kind, **process},
        "classes": [
            {
                **asdict(each),
                "quantities": {
                    name: _distribution_json(one) for name, one in each.quantities.items()
                },
            }
            for each in stream.classes
        ],
    }


def _distribution_json(distribution: Distribution) -> Json:
    if isinstance(distribution, Continuous):
        return asdict(distribution)
    family = "discrete" if isinstance(distribution, Discrete) else "quantiles"
    return {"family": family, **asdict(distribution)}


def _stream(value: object, at: str) -> JobStream:
    stream = _object(value, at)
    classes = tuple(
        _class(each, f"{at}.classes[{i}]")
        for i, each in enumerate(_list(stream, "classes", f"{at}.classes"))
    )
    jobs = _number(stream, "jobs", at, low=0.0)
    if not jobs.is_integer() or not sum(each.weight for each in classes) > 0.0:
        raise WorkloadModelError(f"{at} needs a whole number of jobs and a class with weight")
    return JobStream(
        jobs=int(jobs),
        span_s=_number(stream, "span_s", at, low=1e-3),
        process=_process(stream.get("process"), f"{at}.process"),
        classes=classes,
        start_s=_number(stream, "start_s", at, low=0.0),
    )


def _process(value: object, at: str) -> Process:
    process = _object(value, at)
    made = PROCESSES.get(str(process.get("kind")))
    if made is None:
        known = ", ".join(PROCESSES)
        raise WorkloadModelError(f"{at}.kind must be one of {known}, not {process.get('kind')!r}")
    if made is Diurnal:
        hours = _numbers(process, "hours", at)
        if len(hours) != HOURS or not sum(hours) > 0.0:
            raise WorkloadModelError(f"{at}.hours must be {HOURS} rates, one above 0")
        known_shape = process.get("shape") is not None
        shape = _number(process, "shape", at, low=1e-6) if known_shape else math.inf
        return Diurnal(hours, shape)
    if made is Gaps:
        return _gaps(process, at)
    low = 0.0 if made is Regular else 1.0
    numbers: dict[str, Any] = {
        each.name: _number(process, each.name, at, low=low) for each in fields(made)
    }
    return made(**numbers)


def _gaps(process: Json, at: str) -> Gaps:
    levels, gaps, hours = (_numbers(process, name, at) for name in ("levels", "gaps", "hours"))
    is_ascending = (np.diff(levels) > 0.0).all() and (np.diff(gaps) >= 0.0).all()
    if len(levels) < 2 or len(levels) != len(gaps) or not is_ascending or not gaps[-1] > 0.0:
        raise WorkloadModelError(f"{at} needs as many levels as gaps, both ascending")
    if (levels[0], levels[-1]) != (0.0, 1.0):
        raise WorkloadModelError(f"{at}.levels must begin at 0 and end at 1")
    if len(hours) != HOURS or not min(hours) > 0.0:
        raise WorkloadModelError(f"{at}.hours must be {HOURS} rates above 0")
    memory, persistence = (
        _number(process, name, at, low=0.0) for name in ("memory", "persistence")
    )
    if max(memory, persistence) > MAX_MEMORY:
        raise WorkloadModelError(f"{at}: memory and persistence must be at most {MAX_MEMORY}")
    return Gaps(
        levels, gaps, memory, persistence, hours, _number(process, "resolution_s", at, low=0.0)
    )


def _class(value: object, at: str) -> JobClass:
    found = _object(value, at)
    if found.get("kind") not in KINDS:
        raise WorkloadModelError(
            f"{at}.kind must be one of {', '.join(KINDS)}, not {found.get('kind')!r}"
        )
    quantities = {
        name: _distribution(each, f"{at}.quantities.{name}", name)
        for name, each in _object(found.get("quantities"), f"{at}.quantities").items()
    }
    if unknown := quantities.keys() - set(QUANTITIES):
        known = ", ".join(QUANTITIES)
        raise WorkloadModelError(f"{at}.quantities: {min(unknown)!r} is not one of {known}")
    if "work_s" not in quantities and not {"seconds", "units"} <= quantities.keys():
        raise WorkloadModelError(f"{at} needs work_s, or seconds and units of a service")
    applications = _number(found, "applications", at, low=1.0)
    has_target = _number(found, "has_target", at, low=0.0)
    if not applications.is_integer() or has_target > 1.0:
        raise WorkloadModelError(f"{at}: applications must be whole and has_target in 0 .. 1")
    return JobClass(
        name=str(found.get("name", "")) or "jobs",
        kind=str(found["kind"]),
        weight=_number(found, "weight", at, low=0.0),
        quantities=quantities,
        applications=int(applications),
        has_target=has_target,
        copula=_copula(found.get("copula") or [], len(quantities), at),
    )


def _copula(rows: Any, size: int, at: str) -> tuple[tuple[float, ...], ...]:
    if rows == []:
        return ()
    try:
        matrix = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    is_valid = matrix.shape == (size, size) and np.isfinite(matrix).all()
    if not is_valid or not np.array_equal(matrix, matrix.T) or not (np.diag(matrix) == 1.0).all():
        raise WorkloadModelError(f"{at}.copula must be a {size} x {size} correlation matrix")
    return tuple(tuple(row) for row in matrix.tolist())


def _distribution(value: object, at: str, name: str) -> Distribution:
    found = _object(value, at)
    family = found.get("family")
    if family == "discrete":
        values, weights = _numbers(found, "values", at), _numbers(found, "weights", at)
        if len(values) != len(weights) or not values or min(weights) < 0 or not sum(weights) > 0:
            raise WorkloadModelError(f"{at} needs a weight >= 0 for each value, one above 0")
        least: Distribution = Discrete(values, weights)
        smallest = min(values)
    elif family in FAMILIES:
        low = _number(found, "low", at, low=0.0)
        high = _number(found, "high", at, low=low)
        scale, shape = (_number(found, key, at, low=1e-12) for key in ("scale", "shape"))
        least, smallest = Continuous(str(family), shape, scale, low, high), low
    elif family == "quantiles":
        values = _numbers(found, "values", at)
        if len(values) < 2 or list(values) != sorted(values) or values[0] <= 0.0:
            raise WorkloadModelError(f"{at}.values must be at least two, > 0 and ascending")
        least, smallest = Quantiles(values), values[0]
    else:
        known = ", ".join(["discrete", "quantiles", *FAMILIES])
        raise WorkloadModelError(f"{at}.family must be one of {known}, not {family!r}")
    if smallest <= 0.0 and name in MUST_BE_POSITIVE:
        raise WorkloadModelError(f"{at} must be > 0")
    if smallest < 0.0 and name != "priority":
        raise WorkloadModelError(f"{at} must not be negative")
    return least


def _object(value: object, at: str) -> Json:
    if not isinstance(value, dict):
        raise WorkloadModelError(f"{at} must be a JSON object")
    return value


def _list(value: Json, key: str, at: str) -> list[object]:
    found = value.get(key)
    if not isinstance(found, list) or not found:
        raise WorkloadModelError(f"{at} must be a list with at least one entry")
    return found


def _numbers(value: Json, key: str, at: str) -> tuple[float, ...]:
    found = _list(value, key, f"{at}.{key}")
    return tuple(_number({str(i): each}, str(i), f"{at}.{key}") for i, each in enumerate(found))


def _number(value: Json, key: str, at: str, *, low: float = -math.inf) -> float:
    found = value.get(key)
    number = math.nan
    if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < LARGEST:
        number = float(found)
    if not number >= low:
        bound = "" if math.isinf(low) else f" of at least {low:g}"
        raise WorkloadModelError(f"{at}.{key} must be a number{bound}, not {repr(found)[:40]}")
    return number
