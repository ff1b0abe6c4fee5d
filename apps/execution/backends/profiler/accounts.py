"""The account of a profiled command, where the profiler is another one."""

import os
import pwd
import signal
from dataclasses import dataclass
from typing import Self

from apps.execution.backends.agent.command import (
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    preload,
)


@dataclass(frozen=True, slots=True)
class Account:
    """An account by the numbers of its user and group, with all its groups."""

    user: int
    group: int
    groups: tuple[int, ...]

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return an account; None if the calling process has it already.

        Raises
        ------
        KeyError : it is unknown.
        """
        found = pwd.getpwnam(name)
        if found.pw_uid == os.geteuid():
            return None
        groups = os.getgrouplist(name, found.pw_gid)
        return cls(found.pw_uid, found.pw_gid, tuple(groups))

    def assume(self) -> None:
        """Become this account for good.

        Raises
        ------
        OSError : the calling process may not.
        """
        os.setgroups(self.groups)
        os.setgid(self.group)
        os.setuid(self.user)
        preload().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # the change has cleared it
        preload().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
