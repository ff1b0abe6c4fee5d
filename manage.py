#!/usr/bin/env python3
"""Django's command line."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """Run one management command with the development settings unless told otherwise."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
