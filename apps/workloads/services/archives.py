"""Archives of files that commands get, stored once however many jobs have them."""

from collections.abc import Collection
from typing import Final

from django.db import connection

from apps.accounts.models import Project
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.infrastructure.database import fetch_rows
from apps.workloads.core.archives import Archive

# an archive that is there is locked, so that retention does not delete it before it has a job
_STORE: Final = """
INSERT INTO workloads_archive AS a (digest, data) VALUES (%s, %s)
ON CONFLICT (digest) DO UPDATE SET used_at = clock_timestamp()
"""
_USE: Final = """
UPDATE workloads_archive a SET used_at = clock_timestamp()
WHERE digest = %s AND EXISTS (
    SELECT FROM workloads_job j WHERE j.files_id = a.digest AND j.project_id = %s)
RETURNING digest
"""


def store_archives(archives: Collection[Archive], project: Project) -> None:
    """Store archives in the caller's transaction.

    Who knows the digest of another project's archive gets nothing by it: a digest is accepted
    only if a job of the same project has the archive.

    Raises
    ------
    InvalidInputError : no job of the project has an archive that is named by its digest.
    """
    found = {archive.digest: archive for archive in archives}
    found |= {archive.digest: archive for archive in archives if archive.data is not None}
    for digest in sorted(found):  # in one order: concurrent submissions wait for each other
        data = found[digest].data
        if data is not None:
            with connection.cursor() as cursor:
                cursor.execute(_STORE, [digest, data])
        elif not fetch_rows(_USE, [digest, project.pk]):
            detail = f"no job of the project {project.name} has the archive {digest}: send it"
            raise InvalidInputError([FieldProblem("/spec/files", "unknown_archive", detail)])
