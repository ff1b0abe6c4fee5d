"""The verbs of `berth` for sign-in, versions and any path of the API."""

import getpass
import os
import sys
from argparse import Namespace

from controlplane.cli.client import BerthClient
from controlplane.cli.config import Config, save_config
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import facts, print_message, print_result, render
from controlplane.cli.verbs import Verbs


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    verbs.add("login", login).add_argument("--token", help="default: prompt for it")
    verbs.add("whoami", whoami)
    verbs.add("version", version)
    api_parser = verbs.add("api", api)
    api_parser.add_argument("path", help="e.g. jobs/ or /api/v1/jobs/")
    api_parser.add_argument("-X", "--method")
    api_parser.add_argument("-d", "--data", help="JSON body; - is stdin")


def login(client: BerthClient, args: Namespace) -> int:
    """Check a token with the server and store it."""
    token = args.token or (
        getpass.getpass("Token: ") if sys.stdin.isatty() else sys.stdin.readline()
    )
    config = Config(client.config.url, token.strip())
    with BerthClient(config) as signed_in:
        me = signed_in.get("/api/v1/me/")
    path = save_config(os.environ, config)
    print_message(
        f"berth: signed in to {config.url} as {me['username']} ({me['role']});"
        f" token stored in {path}"
    )
    return Exit.OK


def whoami(client: BerthClient, args: Namespace) -> int:
    """Show the user of the token, with role and projects."""
    me = client.get("/api/v1/me/")
    projects = ", ".join(f"{p['name']} ({p['role']})" for p in me["projects"])
    table = facts(
        {
            "user": me["username"],
            "role": me["role"],
            "projects": projects or None,
            "server": client.config.url,
        }
    )
    print_result(render(me, args.output, table))
    return Exit.OK


def version(client: BerthClient, args: Namespace) -> int:
    """Show the versions of client and server."""
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415 - slow to import
    from importlib.metadata import version as package_version  # noqa: PLC0415

    try:
        own = package_version("berth")
    except PackageNotFoundError:
        own = "from source"
    try:
        server = client.get("/api/v1/version/")
    except CliError as error:
        server = {"error": error.title}
    versions = {"client": own, "url": client.config.url, "server": server}
    server_text = server.get("berth") or f"unknown: {server['error']}"
    print_result(render(versions, args.output, facts({"client": own, "server": server_text})))
    return Exit.OK


def api(client: BerthClient, args: Namespace) -> int:
    """Call any path of the API and print the response."""
    body = None
    if args.data is not None:
        body = (sys.stdin.read() if args.data == "-" else args.data).encode()
    method = args.method or ("GET" if body is None else "POST")
    path = args.path if args.path.startswith("/") else f"/api/v1/{args.path}"
    reply = client.call(method, path, body=body)
    if reply.body is not None:
        print_result(render(reply.body, "json" if args.output == "table" else args.output, ""))
    return Exit.OK
