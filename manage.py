#!/usr/bin/env python3
"""Django's command line."""

import os
import pwd
import sys

from django.core.management import execute_from_command_line

from apps.accounts.infrastructure.actor import Actor, Via, acting_as


def main() -> None:
    """Run one management command with the development settings unless told otherwise."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    with acting_as(Actor(via=Via.COMMAND, username=_host_user())):
        execute_from_command_line(sys.argv)


def _host_user() -> str:
    """Return the name of the user of this process, or its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


if __name__ == "__main__":
    main()
