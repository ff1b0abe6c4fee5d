"""Reads of classification: the library and the profiles drawn from it."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np

from apps.classification.core.assemble import Library
from apps.classification.core.matrix import Matrix, MatrixName
from apps.classification.core.profile import HALF_WIDTH_90, Profile
from apps.classification.models import MatrixRevision
from apps.classification.models import Profile as ProfileRow
from apps.inventory.models import Platform


def current_library() -> Library:
    """Return the current revision of all six matrices; read once per revision and process.

    Raises
    ------
    NoLibraryError : some matrix has no revision yet.
    """
    current = dict(MatrixRevision.objects.filter(is_current=True).values_list("matrix", "id"))
    missing = [name.value for name in MatrixName if name.value not in current]
    if missing:
        raise NoLibraryError(
            f"there is no library of profiled applications ({', '.join(missing)}): "
            "make one with `manage.py profile_library`"
        )
    return _library(tuple(current[name.value] for name in MatrixName))


def unprofiled_platforms() -> list[str]:
    """Platforms of the cluster of which the current library knows nothing; best first."""
    name = MatrixName.HETEROGENEITY.value
    library = MatrixRevision.objects.filter(is_current=True, matrix=name).first()
    known = set(library.columns) if library else set()
    platforms = Platform.objects.order_by("rank").values_list("name", flat=True)
    return [platform for platform in platforms if platform not in known]


class NoLibraryError(ValueError):
    """No matrix revision to classify by."""


@lru_cache(maxsize=2)
def _library(ids: tuple[int, ...]) -> Library:
    rows = MatrixRevision.objects.in_bulk(ids)
    matrices = {name: _matrix(rows[key]) for name, key in zip(MatrixName, ids, strict=True)}
    return Library(max(rows[key].number for key in ids), matrices)


def _matrix(row: MatrixRevision) -> Matrix:
    values = np.frombuffer(bytes(row.values), dtype=np.float64)
    return Matrix(
        MatrixName(row.matrix),
        tuple(row.rows),
        tuple(row.columns),
        values.reshape(len(row.rows), len(row.columns)),
    )


def current_profile_ids(application_ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Id of the current profile of each application that has one."""
    rows = ProfileRow.objects.filter(application_id__in=list(application_ids), is_current=True)
    return dict(rows.values_list("application_id", "id"))


def profiles(profile_ids: Iterable[UUID]) -> dict[UUID, Profile]:
    """Profiles by id, as values."""
    rows = ProfileRow.objects.filter(id__in=list(profile_ids)).select_related("application")
    return {row.id: from_row(row) for row in rows}


def profile_named(application: str) -> Profile | None:
    """Find the current profile of an application by name; None before it was ever profiled."""
    rows = ProfileRow.objects.select_related("application")
    row = rows.filter(application__name=application, is_current=True).first()
    return None if row is None else from_row(row)


_PARTS = {
    # matrix: (attribute of the value, of its ends, of the marks)
    MatrixName.HETEROGENEITY: ("platform_speed", "platform", "platform_measured"),
    MatrixName.SCALE_UP: ("scale_up", "scale_up", "scale_up_measured"),
    MatrixName.SCALE_OUT: ("scale_out", "scale_out", "scale_out_measured"),
    MatrixName.TOLERATED: ("tolerated", "tolerated", "tolerated_measured"),
    MatrixName.CAUSED: ("caused", "caused", "caused_measured"),
}


def cells_of(profile: Profile, columns: Mapping[MatrixName, tuple[str, ...]]) -> dict[str, Any]:
    """JSON of a profile, per matrix: columns, value, low, high, measured."""
    rates = np.array([profile.base_rate, profile.bytes_rate])
    wide = np.exp(HALF_WIDTH_90 * np.array([profile.base_rate_se, profile.bytes_rate_se]))
    cells: dict[str, Any] = {
        MatrixName.BASE_RATE.value: {
            "columns": list(columns[MatrixName.BASE_RATE]),
            "value": rates.tolist(),
            "low": (rates / wide).tolist(),
            "high": (rates * wide).tolist(),
            "measured": [True, True],
            "standard_error": [profile.base_rate_se, profile.bytes_rate_se],
        }
    }
    for name, (value, ends, marks) in _PARTS.items():
        cells[name.value] = {
            "columns": list(columns[name]),
            "value": getattr(profile, value).tolist(),
            "low": getattr(profile, f"{ends}_low").tolist(),
            "high": getattr(profile, f"{ends}_high").tolist(),
            "measured": getattr(profile, marks).tolist(),
        }
    return cells


def from_row(row: ProfileRow) -> Profile:
    """Read a stored profile."""
    cells = row.cells
    rate = cells[MatrixName.BASE_RATE.value]
    parts: dict[str, Any] = {}
    for name, (value, ends, marks) in _PARTS.items():
        part = cells[name.value]
        parts[value] = np.array(part["value"], dtype=np.float64)
        parts[f"{ends}_low"] = np.array(part["low"], dtype=np.float64)
        parts[f"{ends}_high"] = np.array(part["high"], dtype=np.float64)
        parts[marks] = np.array(part["measured"], dtype=np.bool_)
    return Profile(
        application=row.application.name,
        kind=row.application.kind,
        revision=row.revision,
        platforms=tuple(cells[MatrixName.HETEROGENEITY.value]["columns"]),
        base_rate=rate["value"][0],
        base_rate_se=rate["standard_error"][0],
        bytes_rate=rate["value"][1],
        bytes_rate_se=rate["standard_error"][1],
        **parts,
    )
