#!/usr/bin/env python3
"""Django's command line."""

import os
import pwd
import sys

from django.core.management import execute_from_command_line
from django.db import OperationalError

from apps.accounts.infrastructure.actor import Actor, Via, acting_as


def main() -> None:
    """Run one management command with the development settings unless told otherwise."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    with acting_as(Actor(via=Via.COMMAND, username=_host_user())):
        try:
            execute_from_command_line(sys.argv)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None):  # the server has answered
                raise
            reason = str(error).partition("\n")[0]
            sys.exit(
                f"The database cannot be reached ({reason}): start Berth (`./dev run`), or set"
                " DATABASE_URL."
            )


def _host_user() -> str:
    """Return the name of the user of this process, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


if __name__ == "__main__":
    main()
