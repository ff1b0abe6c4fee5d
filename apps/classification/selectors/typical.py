"""The profile of an application without measurements: the library's average."""

from datetime import datetime
from functools import lru_cache

from apps.classification.core.inference import infer_profile
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.classification.models import Revision
from apps.classification.selectors.revisions import NoLibraryError, current_library


def typical_profile(kind: str) -> Profile:
    """Return the profile inferred from no measured cell; its intervals are wide (P9).

    Raises
    ------
    NoLibraryError : there is no revision yet.
    EmptyLibraryError : its library is empty.
    """
    current = Revision.objects.filter(is_current=True).values_list("number", "created_at").first()
    if current is None:
        raise NoLibraryError("there is no library of profiled applications")
    return _typical(*current, kind)


@lru_cache(maxsize=8)
def _typical(number: int, created_at: datetime, kind: str) -> Profile:
    """Infer once per revision and process; the time distinguishes revisions before a reset."""
    library = current_library()
    platforms = library.matrices[MatrixName.HETEROGENEITY].columns
    return infer_profile("", kind, (), library, platforms=platforms)
