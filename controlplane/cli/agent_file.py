"""Build the agent as one file: `python -m controlplane.cli.agent_file FILE`.

The file is a zip archive that Python 3.11 or newer runs, without further packages; it takes the
arguments of `berth agent`. It holds the modules that the agent imports, and no others.
"""

import subprocess
import sys
import tempfile
import zipapp
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
MAIN: Final = """\
import sys

from controlplane.cli.main import main

sys.exit(main(["agent", *sys.argv[1:]]))
"""
_IMPORTS: Final = """\
import sys
sys.path.insert(0, sys.argv[1])
import controlplane.cli.agent, controlplane.cli.main
ours = [getattr(module, "__file__", None) for module in sys.modules.values()]
print(*(path for path in ours if path and path.startswith(sys.argv[1])), sep="\\n")
"""


def sources() -> list[Path]:
    """Return the modules that an agent imports; they need no further package."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", "-c", _IMPORTS, str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(Path(line) for line in done.stdout.splitlines())


def build(file: Path) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        for source in sources():
            copy = Path(folder) / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
        (Path(folder) / "__main__.py").write_text(MAIN)
        zipapp.create_archive(folder, file, interpreter="/usr/bin/env python3", compressed=True)
    file.chmod(0o755)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
