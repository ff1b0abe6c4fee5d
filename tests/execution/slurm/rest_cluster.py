"""The Slurm of the tests with a slurmrestd, which listens on a port and on a Unix socket."""

import os
import secrets
import shutil
from pathlib import Path
from typing import Final

from apps.execution.backends.slurm.rest import RestSlurm, Slurmrestd
from tests.execution.slurm.cluster import SlurmCluster, free_ports

PACKAGES: Final = "slurmrestd slurm-wlm-jwt-plugin"
_PLUGIN: Final = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_jwt.so")
_NOBODY: Final = 65534  # slurmrestd refuses to run as root


def missing() -> list[str]:
    """Return what slurmrestd needs and this machine does not have."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    programs = [] if shutil.which("slurmrestd", path=path) else ["slurmrestd"]
    return programs + ([] if _PLUGIN.exists() else ["auth_jwt.so"])


class RestCluster(SlurmCluster):
    """A cluster that knows JSON Web Tokens."""

    @property
    def token_file(self) -> Path:
        """Where root's token is."""
        return self.work / "etc/token"

    def start_rest(self) -> None:
        """Start slurmrestd; returns when it listens."""
        (self.port,) = free_ports(1)
        self.socket = self.work / "rest/socket"
        self.socket.parent.mkdir()
        os.chown(self.socket.parent, _NOBODY, _NOBODY)
        self.token_file.write_text(self.run("scontrol", "token", "username=root"))
        # with a token in its environment, a daemon authenticates by tokens
        self._spawn("slurmrestd", "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}",
                    "--clear-groups", "env", "SLURM_JWT=daemon",
                    "SLURMRESTD_SECURITY=disable_user_check",
                    "slurmrestd", "-s", "openapi/v0.0.38", "-a", "rest_auth/jwt",
                    f"127.0.0.1:{self.port}", f"unix:{self.socket}")  # fmt: skip
        self.until(self.socket.exists, "slurmrestd listens", limit_s=60.0)

    def rest(self, url: str, *, token_file: Path | None = None) -> RestSlurm:
        """Return the backend's view of this cluster through a slurmrestd."""
        found = Slurmrestd(url, "root", token_file or self.token_file)
        return RestSlurm(self.environment["SLURM_CONF"], self.environment["PATH"], rest=found)

    @property
    def urls(self) -> dict[str, str]:
        """Where slurmrestd listens."""
        return {"port": f"http://127.0.0.1:{self.port}", "socket": f"unix:{self.socket}"}

    def _configure(self) -> None:
        super()._configure()
        key = self.work / "etc/jwt_hs256.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(32))
        with (self.work / "etc/slurm.conf").open("a") as config:
            config.write(f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n")
