"""Unpacks the files of a command into its working directory."""

import os
from pathlib import Path

from apps.workloads.core.archives import Kind, members


def unpack(data: bytes, directory: Path) -> None:
    """Write the members of an archive into an empty directory that only this process can enter.

    Raises
    ------
    ArchiveError : a member is not accepted; nothing is written.
    OSError : a file cannot be written.
    """
    # the umask of the agent does not change them
    modes: dict[Path, int] = {}
    for member in members(data):
        path = directory / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.kind is Kind.LINK:
            path.symlink_to(member.target)
            continue
        modes[path] = member.mode
        if member.kind is Kind.DIRECTORY:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(member.data)
    for path, mode in modes.items():
        path.chmod(mode)


def give(directory: Path, user: int, group: int) -> None:
    """Make a user the owner of a directory and of everything in it, links themselves included.

    The directory comes last: until then the user cannot enter it and replace a file by a link.
    """
    for path, directories, files in os.walk(directory):
        for name in (*directories, *files):
            os.chown(os.path.join(path, name), user, group, follow_symlinks=False)
    os.chown(directory, user, group)
