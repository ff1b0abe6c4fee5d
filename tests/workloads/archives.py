"""Archives of files for tests."""

import tarfile
from collections.abc import Mapping
from io import BytesIO

from apps.workloads.core.archives import digest_of
from apps.workloads.models import Archive


def archive(files: Mapping[str, bytes]) -> Archive:
    """A stored archive, not compressed."""
    data = tar_of(files)
    return Archive.objects.create(digest=digest_of(data), data=data)


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A tar file with files of these contents."""
    raw = BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, BytesIO(content))
    return raw.getvalue()
