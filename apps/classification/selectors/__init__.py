"""Queries of classification: revisions, known cells, profiles."""

from apps.classification.selectors.history import (
    current_profile,
    measurements_of,
    overrides_of,
    prediction_errors_of,
)
from apps.classification.selectors.known_cells import (
    known_cells_of,
    live_rows,
    program_scores,
    program_scores_of,
)
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
    server_units,
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
    "current_profile",
    "current_profile_ids",
    "from_row",
    "known_cells_of",
    "library_rows",
    "live_rows",
    "matrices_at",
    "matrices_of",
    "matrix_at",
    "measurements_of",
    "overrides_of",
    "prediction_errors_of",
    "profile_named",
    "profiles",
    "program_scores",
    "program_scores_of",
    "revisions",
    "server_units",
    "unprofiled_platforms",
    "warm_up",
]
