"""``reset_password``: replace the password of a person by a one-time password."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from apps.accounts.selectors import sign_in_failures_of, user_by
from apps.accounts.services import reset_password, unblock_sign_in
from apps.common.core.errors import ControlPlaneError


class Command(BaseCommand):
    """Reset a password, and unblock the sign-in of its user."""

    help = "Print a one-time password for a user, and unblock the user's sign-in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Describe the options."""
        parser.add_argument("username")

    def handle(self, *_: Any, **options: Any) -> None:
        """Reset the password and print the new one."""
        try:
            user = user_by(options["username"])
            with transaction.atomic():
                password = reset_password(user.pk)
                for row in sign_in_failures_of(user):
                    unblock_sign_in(row.pk)
        except ControlPlaneError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"password  {password}   (one-time, shown only once)")
