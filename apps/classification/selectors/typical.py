"""What is believed of an application nobody has measured: what is typical of all."""

from datetime import datetime
from functools import lru_cache

from apps.classification.core.assemble import assemble
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.classification.models import Revision
from apps.classification.selectors.revisions import NoLibraryError, current_library


def typical_profile(kind: str) -> Profile:
    """Fold nothing into the library of the revision in force; its intervals are wide (P9).

    Raises
    ------
    NoLibraryError : there is no revision yet.
    EmptyLibraryError : its library is empty.
    """
    found = Revision.objects.filter(is_current=True).values_list("number", "created_at").first()
    if found is None:
        raise NoLibraryError("there is no library of profiled applications")
    return _typical(*found, kind)


@lru_cache(maxsize=8)
def _typical(number: int, created_at: datetime, kind: str) -> Profile:
    """Fold once per revision and process; its time tells it from one before a reset."""
    library = current_library()
    platforms = library.matrices[MatrixName.HETEROGENEITY].columns
    return assemble("", kind, (), library, platforms=platforms)
