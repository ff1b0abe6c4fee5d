"""Reads of classification: revisions, what is known of each cell, profiles."""

from apps.classification.selectors.known import known_cells_of, live_rows
from apps.classification.selectors.profiles import (
    cells_of,
    current_profile_ids,
    from_row,
    profile_named,
    profiles,
)
from apps.classification.selectors.revisions import (
    LibraryRows,
    NoLibraryError,
    cells_in,
    current_columns,
    current_library,
    current_number,
    library_rows,
    matrices_at,
    matrices_of,
    matrix_at,
    revisions,
    unprofiled_platforms,
    warm_up,
)

__all__ = [
    "LibraryRows",
    "NoLibraryError",
    "cells_in",
    "cells_of",
    "current_columns",
    "current_library",
    "current_number",
    "current_profile_ids",
    "from_row",
    "known_cells_of",
    "library_rows",
    "live_rows",
    "matrices_at",
    "matrices_of",
    "matrix_at",
    "profile_named",
    "profiles",
    "revisions",
    "unprofiled_platforms",
    "warm_up",
]
