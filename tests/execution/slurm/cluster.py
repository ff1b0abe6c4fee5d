"""A real Slurm of six nodes on this machine: munge, slurmctld, six slurmd, and slurmdbd if asked.

All daemons are ordinary processes with their own configuration and ports, on loopback only; they
disturb no other Slurm of the machine. The six nodes share its cores: they show how Slurm decides,
not how fast jobs run.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "munged")
PACKAGES: Final = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
ACCOUNTING: Final = ("slurmdbd", "mariadbd", "mariadb-install-db")
START_S: Final = 180.0  # of a busy machine
NODES: Final[Mapping[str, str]] = {
    "n1": "CPUs=8 RealMemory=4000 Feature=xeon_l5609,avx",
    "n2": "CPUs=8 RealMemory=4000 Feature=xeon_l5609,avx",
    "n3": "CPUs=4 RealMemory=8000 Feature=xeon_x5650,avx2",
    "n4": "CPUs=4 RealMemory=8000 Feature=xeon_x5650,avx2",
    "n5": "CPUs=16 RealMemory=16000 Feature=opteron",
    "n6": "CPUs=2 RealMemory=2000 Feature=atom",
}
_TO_RESUME: Final = ("drain", "drng", "down")  # states of nodes that take no job
_CONFIG: Final = """
ClusterName=ci
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={work}/run/munge.socket,cred_expire=15
CredType=cred/munge
SlurmctldPort={controller}
SlurmctldParameters=enable_rpc_queue
SlurmdParameters=config_overrides
CommunicationParameters=NoAddrCache
SlurmctldPidFile={work}/run/slurmctld.pid
SlurmdPidFile={work}/run/slurmd.%n.pid
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool/%n
SlurmctldLogFile={work}/log/slurmctld.log
SlurmdLogFile={work}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{plugins}
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=2
{accounting}
{nodes}
PartitionName=main Nodes=n[1-6] Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=n[1-6] MaxTime=INFINITE State=UP PriorityTier=10
"""
_ACCOUNTING: Final = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={work}/run/munge.socket
"""
_DBD: Final = """
AuthType=auth/munge
AuthInfo=socket={work}/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
LogFile={work}/log/slurmdbd.log
PidFile={work}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct
"""
_DATABASE: Final = """
CREATE DATABASE slurm_acct;
CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm';
CREATE USER slurm@localhost IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct.* TO slurm@'127.0.0.1';
GRANT ALL ON slurm_acct.* TO slurm@localhost;
"""


class SlurmStartError(RuntimeError):
    """A daemon did not start."""


def missing(*, accounting: bool = False) -> list[str]:
    """Return the programs that a Slurm on this machine needs and does not find."""
    programs = (*PROGRAMS, *(ACCOUNTING if accounting else ()))
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in programs if shutil.which(name, path=path) is None]


def free_ports(count: int) -> list[int]:
    """Return ports that no process uses now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass(frozen=True)
class Gate:
    """A file for which jobs wait; with it a test decides when they go on."""

    file: Path

    @property
    def script(self) -> str:
        """Shell command that returns once the gate is open."""
        return f"while [ ! -e {self.file} ]; do sleep 0.1; done"

    def open(self) -> None:
        """Let the jobs go on."""
        self.file.touch()


@dataclass
class SlurmCluster:
    """The daemons, and the directory of their configuration, state and logs.

    Attributes
    ----------
    work : an empty directory that other users may enter
    hook : text of job_submit.lua; empty = none
    """

    work: Path
    hook: str
    accounting: bool = False
    _daemons: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the daemons and of Slurm's commands."""
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return {"SLURM_CONF": str(self.work / "etc/slurm.conf"), "PATH": path, "LC_ALL": "C"}

    def start(self) -> None:
        """Write the configuration and start all daemons; returns when the nodes are idle."""
        for name in ("etc", "state", "log", "run", *(f"spool/{node}" for node in NODES)):
            (self.work / name).mkdir(parents=True)
        self._configure()
        self._start_munge()
        if self.accounting:
            self._start_accounting()
        self.start_controller(clean=True)
        for node in NODES:
            self.start_node(node)
        self.until(lambda: self.states() == dict.fromkeys(NODES, "idle"), "all nodes are idle")
        if self.accounting:
            self.run("sacctmgr", "-i", "add", "account", "berth")
            self.run("sacctmgr", "-i", "add", "user", "root", "account=berth")

    def clear(self) -> None:
        """Cancel all jobs, and start what a test has ended; returns when the nodes are idle."""
        if "slurmctld" not in self._daemons:
            self.start_controller()
        for node in NODES:
            if node not in self._daemons:
                self.start_node(node)
        self.run("scancel", "--quiet", "--user=root")
        self.until(lambda: not self.run("squeue", "-h").strip(), "no job is left")
        for node, state in self.states().items():
            if state.startswith(_TO_RESUME):
                self._resume(node)
        self.until(lambda: self.states() == dict.fromkeys(NODES, "idle"), "all nodes are idle")

    def _resume(self, node: str) -> None:
        try:
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        except subprocess.CalledProcessError:
            # one whose daemon has registered meanwhile is idle, and cannot be resumed
            if self.states()[node].startswith(_TO_RESUME):
                raise

    def stop(self) -> None:
        """End all daemons and what they run."""
        if "slurmctld" in self._daemons:
            with contextlib.suppress(subprocess.SubprocessError, SlurmStartError):
                self.run("scancel", "--quiet", "--user=root")
                self.until(lambda: not self.run("squeue", "-h").strip(), "no jobs", limit_s=10.0)
        for name in list(self._daemons)[::-1]:
            self.kill(name, signal.SIGTERM)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End one daemon."""
        process = self._daemons.pop(name)
        process.send_signal(number)
        try:
            process.wait(10.0 if number == signal.SIGTERM else START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start_controller(self, *, clean: bool = False) -> None:
        """Start slurmctld; returns when it answers."""
        self._spawn("slurmctld", "slurmctld", "-D", *(["-i", "-c"] if clean else []))
        self.until(lambda: self._answers("scontrol", "ping"), "slurmctld answers")

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node."""
        self._spawn(node, "slurmd", "-D", "-N", node)

    def run(self, *command: str, text: str | None = None) -> str:
        """Run a command of Slurm and return what it prints.

        Raises
        ------
        subprocess.CalledProcessError : it failed.
        """
        done = subprocess.run(  # noqa: S603 - commands of the tests
            command, env=self.environment, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(
                done.returncode, command, done.stdout, done.stderr
            ) from SlurmStartError(done.stderr)
        return done.stdout

    def sbatch(self, script: str, *options: str) -> int:
        """Submit a script as a user does; returns the id of the job."""
        out = self.run("sbatch", "--parsable", "--output=/dev/null", *options,
                       text=f"#!/bin/sh\n{script}\n")  # fmt: skip
        return int(out.strip().split(";")[0])

    def gate(self) -> Gate:
        """Return a new gate, closed."""
        return Gate(self.work / f"gate-{secrets.token_hex(4)}")

    def states(self) -> dict[str, str]:
        """Return the short state of each node."""
        rows = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N %t").split("\n")
        return dict(row.split() for row in rows if row.strip())

    def until(self, holds: Callable[[], object], what: str, *, limit_s: float = START_S) -> None:
        """Wait until a function returns a true value.

        Raises
        ------
        SlurmStartError : it did not within `limit_s`.
        """
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            if holds():
                return
            time.sleep(0.05)
        logs = [self.log(path.stem) for path in (self.work / "log").glob("*.log")]
        raise SlurmStartError(f"did not happen in {limit_s:.0f} s: {what}; {logs}")

    def log(self, daemon: str) -> str:
        """Return the last lines of a daemon's log."""
        return f"{daemon}: {(self.work / 'log' / f'{daemon}.log').read_text()[-3000:]}"

    def _answers(self, *command: str) -> bool:
        try:
            return "UP" in self.run(*command)
        except subprocess.CalledProcessError:
            return False

    def _spawn(self, name: str, *command: str) -> None:
        with (self.work / "log" / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(  # noqa: S603 - daemons of the tests
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _configure(self) -> None:
        controller, dbd, database, *ports = free_ports(3 + len(NODES))
        self._dbd, self._database = dbd, database
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} {shape}"
            for (name, shape), port in zip(NODES.items(), ports, strict=True)
        ]
        accounting = (
            _ACCOUNTING.format(work=self.work, dbd=dbd)
            if self.accounting
            else "AccountingStorageType=accounting_storage/none"
        )
        config = _CONFIG.format(
            work=self.work,
            controller=controller,
            accounting=accounting,
            nodes="\n".join(lines),
            plugins="JobSubmitPlugins=lua" if self.hook else "",
        )
        (self.work / "etc/slurm.conf").write_text(config)
        if self.hook:
            (self.work / "etc/job_submit.lua").write_text(self.hook)

    def _start_munge(self) -> None:
        key, run = self.work / "etc/munge.key", self.work / "run"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for path in (key, run):
            shutil.chown(path, "munge", "munge")
        files = {"key-file": key, "socket": run / "munge.socket", "pid-file": run / "munged.pid",
                 "log-file": run / "munged.log", "seed-file": run / "munged.seed"}  # fmt: skip
        options = [f"--{name}={path}" for name, path in files.items()]
        self._spawn("munged", "runuser", "-u", "munge", "--",
                    "munged", "--foreground", *options, "--num-threads=4")  # fmt: skip
        self.until((run / "munge.socket").exists, "munged listens")

    def _start_accounting(self) -> None:
        base = self.work / "db"
        base.mkdir()
        shutil.chown(base, "mysql", "mysql")
        self.run("mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={base}",
                 "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
        (self.work / "etc/init.sql").write_text(_DATABASE)
        self._spawn("mariadbd", "mariadbd", "--no-defaults", "--user=mysql", f"--datadir={base}",
                    f"--socket={base}/mysql.sock", "--bind-address=127.0.0.1",
                    f"--port={self._database}", f"--init-file={self.work}/etc/init.sql",
                    f"--pid-file={base}/mariadbd.pid")  # fmt: skip
        self.until(lambda: _listens(self._database), "mariadbd listens")
        conf = self.work / "etc/slurmdbd.conf"
        conf.write_text(_DBD.format(work=self.work, dbd=self._dbd, database=self._database))
        conf.chmod(0o600)
        self._spawn("slurmdbd", "slurmdbd", "-D")
        self.until(lambda: _listens(self._dbd), "slurmdbd listens")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
