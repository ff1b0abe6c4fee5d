"""``create_admin``: create the first administrator, or a new token for it."""

import json
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.selectors import principal_by_token
from apps.accounts.services import AdminAccess, ensure_admin


class Command(BaseCommand):
    """Create the administrator; idempotent, so that a launcher can call it at every start."""

    help = "Create the administrator on the first call and print the password once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Describe the options."""
        parser.add_argument("--username", default="admin")
        parser.add_argument("--print-json", action="store_true", help="print one line of JSON")
        parser.add_argument(
            "--token-file",
            type=Path,
            help="store an API token in this file (mode 0600); replaced if it is no longer valid",
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Create or find the administrator and print the credentials."""
        path: Path | None = options["token_file"]
        stored = _stored_token(path)
        access = ensure_admin(
            username=options["username"], new_token=path is not None and stored is None
        )
        token = access.token or stored
        if path is not None and access.token is not None:
            _store_token(path, access.token)
        self.stdout.write(
            _as_json(access, token) if options["print_json"] else _as_text(access, path)
        )


def _stored_token(path: Path | None) -> str | None:
    try:
        secret = path.read_text().strip() if path else ""
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"cannot read the token file: {error}") from error
    return secret if secret and principal_by_token(secret) else None


def _store_token(path: Path, secret: str) -> None:
    try:
        path.unlink(missing_ok=True)  # another process may hold the old file open
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secret + "\n")
    except OSError as error:
        raise CommandError(f"cannot write the token file: {error}") from error


def _as_json(access: AdminAccess, token: str | None) -> str:
    return json.dumps({"user": access.user.username, "password": access.password, "token": token})


def _as_text(access: AdminAccess, path: Path | None) -> str:
    lines = [f"user      {access.user.username}"]
    if access.password:
        lines.append(f"password  {access.password}   (one-time, shown only once)")
    if access.token:
        lines.append(f"token     {f'stored in {path}' if path else access.token}")
    return "\n".join(lines)
