"""Settings of a deployment whose static files are collected outside the checkout."""

import os
from pathlib import Path

from controlplane.settings.prod import *  # noqa: F403

STATIC_ROOT = Path(os.environ["COLLECTED_STATIC_FILES"])
