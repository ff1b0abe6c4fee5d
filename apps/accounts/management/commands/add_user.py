"""``add_user``: add a person or a service account."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.core.roles import Role
from apps.accounts.services import NewUser, add_user
from apps.common.core.errors import ControlPlaneError


class Command(BaseCommand):
    """Add a user and print the password and token once."""

    help = "Add a person or a service account; its password and token are printed once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Describe the options."""
        parser.add_argument("username")
        parser.add_argument("--role", choices=list(map(str, Role)), default=str(Role.SUBMITTER))
        parser.add_argument(
            "--service", action="store_true", help="a service account: token only, no password"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Add the user and print the credentials."""
        try:
            added = add_user(
                username=options["username"],
                role=Role(options["role"]),
                service=options["service"],
            )
        except ControlPlaneError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(_as_text(added))


def _as_text(added: NewUser) -> str:
    lines = [f"user      {added.user.username} ({added.user.role})"]
    if added.password:
        lines.append(f"password  {added.password}   (one-time, shown only once)")
    lines.append(f"token     {added.token}   (shown only once)")
    return "\n".join(lines)
