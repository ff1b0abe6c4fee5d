"""Atomic storage of the state of a replay in a file."""

import json
import os
from pathlib import Path

from django.conf import settings

from apps.testbed.core.replay_state import ReplayState


def state_path() -> Path:
    """``replay.json`` in the instance's directory (BERTH_HOME or ``.berth`` of the project)."""
    home = os.environ.get("BERTH_HOME") or Path(settings.BASE_DIR) / ".berth"
    return Path(home) / "replay.json"


def load_state(path: Path) -> ReplayState | None:
    """Read the state; None if the file does not exist.

    Raises
    ------
    ValueError : the file is damaged.
    """
    try:
        return ReplayState.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def save_state(path: Path, state: ReplayState) -> None:
    """Replace the file atomically: a crash leaves the old or the new state."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(state.as_json()))
    temporary.replace(path)
