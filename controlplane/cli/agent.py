"""``berth agent``: the agent of a machine, its enrolment, and the tokens that permit it."""

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from apps.execution.backends.agent.accounts import problem_with
from apps.execution.backends.agent.agent import Agent, FencedError, only_agent
from apps.execution.backends.agent.link import AwayError, Link, RefusedError
from apps.execution.backends.agent.machine import Machine, usable_cpus
from controlplane.cli.agent_unit import PROGRAM, UNIT, install
from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.jobfile import size
from controlplane.cli.output import print_message, print_result
from controlplane.cli.verbs import Verbs, argument_type

TOKENS: Final = "/api/v1/agents/enrolment-tokens/"


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add("agent", agent)
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=("run", "token", "enrol", "rotate", "install"),
        default="run",
        help="run: run the agent (default). token: print a token that enrols a machine, for"
        " admins. enrol: enrol this machine. rotate: replace the credential of this machine."
        " install: install the agent as a systemd unit with these options",
    )
    _declare_access(add)
    _declare_machine(add)
    add(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="install: root directory of the files, such as the mounted image of another machine",
    )


def _declare_access(add: Callable[..., object]) -> None:
    """Declare who the agent is, where its files are, and the accounts of its commands."""
    add("--server", required=True, metavar="NAME", help="name of this machine in the cluster")
    add("--token", help="from `berth agent token`; without it, enrol creates one as an admin")
    add(
        "--insecure-http",
        action="store_true",
        help="allow an address of another machine without TLS; anyone who can read the network"
        " traffic can then read the credential, the commands and their output",
    )
    add(
        "--state",
        type=Path,
        metavar="DIR",
        help="directory of the credential, the lease and the tasks (default: as root"
        " /var/lib/berth-agent/NAME, otherwise ~/.local/state/berth-agent/NAME)",
    )
    add("--user", help="account that runs the commands; required if the agent runs as root")
    add(
        "--allow-users",
        type=argument_type(_users),
        default=(),
        metavar="LIST",
        help="other accounts that jobs may name, such as alice,bob; the agent must run as root",
    )


def _declare_machine(add: Callable[..., object]) -> None:
    """Declare what the agent reports of its machine."""
    add(
        "--cores",
        type=argument_type(_cores),
        metavar="LIST",
        help="cores that jobs may use, such as 0-3,6 (default: all)",
    )
    add(
        "--describe-l3",
        type=argument_type(_l3_groups),
        metavar="LISTS",
        help="for tests: report these L3 caches instead of the real ones, as the cores of each:"
        " 0-3/4-7",
    )
    add("--memory", type=argument_type(size), help="memory that jobs may use, such as 64Gi")
    add("--rack", default="machines", help="rack of this machine (default: machines)")
    add("--idle-watts", type=float, default=0.0, help="power of the machine when it is idle")
    add("--peak-watts", type=float, default=0.0, help="power of the machine under full load")


def _cores(text: str) -> tuple[int, ...]:
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise ValueError("must be numbers of cores, such as 0-3,8")
        cores.update(range(int(first), int(last if dash else first) + 1))
    if not cores <= set(usable_cpus()):
        raise ValueError(f"this machine has the cores {usable_cpus()}")
    return tuple(sorted(cores))


def _users(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if not all(names):
        raise ValueError("must be names of accounts, such as alice,bob")
    return names


def _l3_groups(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(_cores(part) for part in text.split("/"))


def agent(client: BerthClient, args: Namespace) -> int:
    """Run the agent of a machine, or enrol the machine."""
    if args.action == "token":
        print_result(_token(client, args.server))
        return Exit.OK
    _require_tls(client.config.url, is_waived=args.insecure_http)
    match args.action:
        case "enrol":
            _enrol(client, args)
        case "rotate":
            _rotate(client.config.url, args)
        case "install":
            _install(client.config.url, args)
        case _:
            return _run(client.config.url, args)
    return Exit.OK


def _token(client: BerthClient, server: str) -> str:
    return str(client.post(TOKENS, {"server": server}).body["secret"])


def _default_state(server: str) -> Path:
    """Return the default directory, which the accounts that run commands must be able to read."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    own = home / "berth-agent" / server
    is_system = os.geteuid() == 0 and "XDG_STATE_HOME" not in os.environ and not own.exists()
    return Path("/var/lib/berth-agent") / server if is_system else own


def _install(url: str, args: Namespace) -> None:
    _require_user(args)
    state: Path = args.state or _default_state(args.server)
    given = {
        "--server": args.server,
        "--url": url,
        "--state": state.absolute(),
        "--user": args.user,
        "--allow-users": ",".join(args.allow_users) or None,
        "--cores": args.cores and ",".join(str(core) for core in args.cores),
        "--describe-l3": args.describe_l3
        and "/".join(",".join(map(str, group)) for group in args.describe_l3),
        "--memory": args.memory,
        "--rack": args.rack,
        "--idle-watts": args.idle_watts,
        "--peak-watts": args.peak_watts,
    }
    options = [text for name, value in given.items() if value for text in (name, str(value))]
    options += ["--insecure-http"] if args.insecure_http else []
    is_started = install(args.server, options, root=args.root)
    next_step = "started" if is_started else f"start it with systemctl enable --now {UNIT.name}"
    print_message(f"berth: installed {args.root / PROGRAM} and {args.root / UNIT}; {next_step}")


def _require_tls(url: str, *, is_waived: bool) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or is_waived or _is_loopback(parts.hostname or ""):
        return
    raise CliError(
        f"the address {url} has no TLS: an agent needs https://",
        detail="others on the network could read its credential, the commands and their output;"
        " --insecure-http permits it",
        code=Exit.USAGE,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _require_user(args: Namespace) -> None:
    if os.geteuid() == 0 and not args.user:
        raise CliError(
            "name the account that runs the commands: --user NAME",
            detail="this agent runs as root; commands run as root only with --user root",
            code=Exit.USAGE,
        )


def _require_accounts(names: tuple[str, ...]) -> None:
    """Check that this agent can run commands as the accounts that jobs may name."""
    for name in names:
        if problem := problem_with(name):
            raise CliError(f"--allow-users {name}: {problem}", code=Exit.USAGE)


def _state(args: Namespace) -> Path:
    """Return the directory of the agent; only its owner may list it."""
    state: Path = args.state or _default_state(args.server)
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o711)
    return state.resolve()


def _enrol(client: BerthClient, args: Namespace) -> None:
    token = args.token or _token(client, args.server)
    try:
        found = Link(client.config.url).post("enrol", {"token": token})
    except (AwayError, RefusedError) as error:
        raise CliError("the machine was not enrolled", detail=str(error)) from error
    if found["server"] != args.server:
        raise CliError(f"the token is for {found['server']}; create one for {args.server}")
    path = _store_credential(_state(args), found["credential"])
    print_message(f"berth: enrolled as {args.server}; credential stored in {path}")


def _rotate(url: str, args: Namespace) -> None:
    """Replace the stored credential; the old one is valid until the new one is used."""
    state = _state(args)
    try:
        found = Link(url, _credential(state, args.server)).post("credential", {})
    except (AwayError, RefusedError) as error:
        raise CliError("the credential was not replaced", detail=str(error)) from error
    path = _store_credential(state, found["credential"])
    print_message(f"berth: new credential stored in {path}; restart the agent to use it")


def _store_credential(state: Path, credential: str) -> Path:
    """Replace the credential of a state directory: a crash leaves the old or the new one."""
    path, new = state / "credential", state / "credential.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(credential)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)
    return path


def _credential(state: Path, server: str) -> str:
    try:
        return (state / "credential").read_text().strip()
    except FileNotFoundError:
        raise CliError(
            "this machine is not enrolled",
            next_command=f"berth agent enrol --server {server}",
        ) from None


def _run(url: str, args: Namespace) -> int:
    _require_user(args)
    _require_accounts(args.allow_users)
    state = _state(args)
    credential = _credential(state, args.server)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="berth agent: %(message)s")
    machine = Machine(
        server=args.server,
        state=state,
        cpus=args.cores or usable_cpus(),
        user=args.user or "",
        users=args.allow_users,
        memory_bytes=args.memory,
        rack=args.rack,
        watts=(args.idle_watts, args.peak_watts),
        l3_described=args.describe_l3 or (),
    )
    try:
        with only_agent(state):
            running = Agent(Link(url, credential), machine)
            running.stop.set_on_signals()  # the supervisors keep the tasks running
            running.run()
    except FencedError as error:
        raise CliError("the agent stops", detail=str(error), code=Exit.CONFLICT) from error
    return Exit.OK
