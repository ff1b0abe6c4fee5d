"""Keep the state of a replay in a file, whole or not at all."""

import json
import os
from pathlib import Path

from django.conf import settings

from apps.testbed.core.progress import ReplayState


def state_path() -> Path:
    """``replay.json`` in the instance's directory (BERTH_HOME, else ``.berth`` of the project)."""
    home = os.environ.get("BERTH_HOME") or Path(settings.BASE_DIR) / ".berth"
    return Path(home) / "replay.json"


def load_state(path: Path) -> ReplayState | None:
    """Read the state; None where there is none.

    Raises
    ------
    ValueError : the file is damaged.
    """
    try:
        return ReplayState.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def save_state(path: Path, state: ReplayState) -> None:
    """Replace the file in one step, so that a crash leaves the old or the new state."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(state.as_json()))
    beside.replace(path)
