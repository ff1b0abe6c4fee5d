"""The accounts of a machine that may run commands."""

import os
import pwd
from dataclasses import dataclass
from typing import Final

ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts that the operator of a machine allows.

    Attributes
    ----------
    usual : runs the commands of jobs that name no account; empty = the agent's own
    allowed : those that a job may name
    """

    usual: str = ""
    allowed: tuple[str, ...] = ()

    def refusal(self, name: str) -> str:
        """Return why an account may not run a command; empty if it may."""
        if name in {"", self.usual}:
            return ""
        if name not in self.allowed:
            known = ", ".join(self.allowed) or "none"
            return f"no job may run as {name} on this server; accounts that jobs may name: {known}"
        return problem_with(name)

    def of(self, name: str) -> pwd.struct_passwd:
        """Return the account that runs the command of a job; raises KeyError."""
        chosen = name or self.usual
        return pwd.getpwnam(chosen) if chosen else pwd.getpwuid(os.geteuid())


def problem_with(name: str) -> str:
    """Return why this process cannot let an account run commands of jobs; empty if it can."""
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return f"this server has no account {name}"
    if account.pw_uid == ROOT:
        return f"no command of a job runs as root, which {name} is"
    if os.geteuid() not in {ROOT, account.pw_uid}:
        return f"the agent does not run as root, so it cannot run commands as {name}"
    return ""
