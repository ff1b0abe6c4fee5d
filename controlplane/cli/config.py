"""Configuration of the berth command: server address and token."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controlplane.cli.errors import CliError, Exit

DEFAULT_URL: Final = "http://127.0.0.1:8000"


@dataclass(frozen=True, slots=True)
class Config:
    """Address of the server and the token; None if not signed in."""

    url: str
    token: str | None


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the configuration file."""
    base = environ.get("XDG_CONFIG_HOME") or str(
        Path(environ.get("HOME", "~")).expanduser() / ".config"
    )
    return Path(base) / "berth" / "config.json"


def load_config(environ: Mapping[str, str], url: str | None = None) -> Config:
    """Load the configuration from options, BERTH_URL and BERTH_TOKEN, or the file, in that order.

    A token from the file is only sent to the address it was stored for.

    Raises
    ------
    CliError : the file cannot be read.
    """
    stored = _read(config_path(environ))
    address = (url or environ.get("BERTH_URL") or stored.get("url") or DEFAULT_URL).rstrip("/")
    token = environ.get("BERTH_TOKEN")
    if not token and stored.get("url", DEFAULT_URL).rstrip("/") == address:
        token = stored.get("token")
    if not address.startswith(("http://", "https://")):
        raise CliError(
            f"the server address must start with http:// or https://, not {address!r}",
            code=Exit.USAGE,
        )
    return Config(address, token or None)


def _read(path: Path) -> dict[str, str]:
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(f"cannot read {path}: {error}", next_command="berth login") from error
    return stored if isinstance(stored, dict) else {}


def save_config(environ: Mapping[str, str], config: Config) -> Path:
    """Store the configuration in a file readable only by its owner.

    Raises
    ------
    CliError : the file cannot be written.
    """
    path = config_path(environ)
    try:
        _write(path, {"url": config.url, "token": config.token})
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from error
    return path


def _write(path: Path, stored: Mapping[str, str | None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(stored, file)
    temporary.replace(path)
