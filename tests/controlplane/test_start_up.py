"""Modules that each process of an instance imports when it starts."""

import os
import subprocess
import sys

EVERYTHING = """
import sys, django
django.setup()
import controlplane.urls
from controlplane.celery import app
app.loader.import_default_modules()
print(*sorted(sys.modules))
"""


def test_a_process_starts_without_the_slow_parts_of_scipy() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "controlplane.settings.test"}
    found = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", EVERYTHING], env=environment, capture_output=True, check=True
    )
    imported = found.stdout.decode().split()
    assert "apps.testbed.core.arrival_gaps" in imported
    assert not {"scipy.signal", "scipy.stats", "scipy.optimize"} & set(imported)
