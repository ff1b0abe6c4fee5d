"""The verbs of `berth users`, `projects`, `members` and `tokens`."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

if TYPE_CHECKING:
    from controlplane.cli.verbs import AddVerb

USERS: Final = "/api/v1/users/"
PROJECTS: Final = "/api/v1/projects/"
TOKENS: Final = "/api/v1/tokens/"
BLOCKED: Final = "/api/v1/blocked-sign-ins/"
ROLES: Final = ("viewer", "submitter", "operator", "admin")


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    _add_user_verbs(verbs.noun("users", "People and service accounts").add)
    _add_project_verbs(verbs.noun("projects", "Projects").add)
    _add_member_verbs(verbs.noun("members", "Members of projects").add)
    _add_token_verbs(verbs.noun("tokens", "API tokens").add)


def _add_user_verbs(verb: "AddVerb") -> None:
    """Declare the arguments of `berth users`."""
    list_parser = verb("list", list_users)
    list_parser.add_argument("-q", "--query", help="part of the name")
    list_parser.add_argument("--role", choices=ROLES)
    _add_limit(list_parser)
    add_parser = verb("add", add_user)
    add_parser.add_argument("user")
    add_parser.add_argument("--role", choices=ROLES, default="submitter")
    add_parser.add_argument(
        "--service", action="store_true", help="a service account: tokens only, no password"
    )
    add_parser.add_argument(
        "--project", action="append", help="project to join; repeatable; default: default"
    )
    role_parser = verb("role", change_role)
    role_parser.add_argument("user")
    role_parser.add_argument("role", choices=ROLES)
    for name, run in (
        ("deactivate", deactivate),
        ("activate", activate),
        ("reset-password", reset_password),
        ("unblock", unblock),
    ):
        verb(name, run).add_argument("user")


def _add_project_verbs(verb: "AddVerb") -> None:
    """Declare the arguments of `berth projects`."""
    _add_limit(verb("list", list_projects))
    for name, run in (("add", add_project), ("change", change_project)):
        parser = verb(name, run)
        parser.add_argument("project")
        parser.add_argument("--description")
        parser.add_argument(
            "--label", action="append", type=_label, metavar="NAME=VALUE", help="repeatable"
        )
        if name == "change":
            parser.add_argument("--rename", metavar="NAME")
    for name, run in (("archive", archive), ("restore", restore), ("delete", delete)):
        verb(name, run).add_argument("project")


def _add_member_verbs(verb: "AddVerb") -> None:
    """Declare the arguments of `berth members`."""
    list_parser = verb("list", list_members)
    list_parser.add_argument("project")
    _add_limit(list_parser)
    set_parser = verb("set", set_member)
    set_parser.add_argument("project")
    set_parser.add_argument("user")
    set_parser.add_argument("role", choices=ROLES)
    remove_parser = verb("remove", remove_member)
    remove_parser.add_argument("project")
    remove_parser.add_argument("user")


def _add_token_verbs(verb: "AddVerb") -> None:
    """Declare the arguments of `berth tokens`."""
    of_user = "tokens of this user; default: your own"
    list_parser = verb("list", list_tokens)
    list_parser.add_argument("--user", help=of_user)
    _add_limit(list_parser)
    new_parser = verb("new", new_token)
    new_parser.add_argument("name")
    new_parser.add_argument("--user", help=of_user)
    new_parser.add_argument("--role", choices=ROLES, help="role limit; default: none")
    new_parser.add_argument("--days", type=int, help="expires after this time; default: never")
    revoke_parser = verb("revoke", revoke_token)
    revoke_parser.add_argument("token", help="id or name")
    revoke_parser.add_argument("--user", help=of_user)


def list_users(client: BerthClient, args: Namespace) -> int:
    """List users."""
    filters = {"q": args.query, "role": args.role}
    rows = list(client.pages(USERS, {k: v for k, v in filters.items() if v}, args.limit))
    headings = ("USER", "ROLE", "KIND", "ACTIVE", "PROJECTS", "LAST SIGN-IN")
    shown = [
        (
            *(row["username"], row["role"], "service" if row["is_service"] else "person"),
            "yes" if row["is_active"] else "no",
            ",".join(project["name"] for project in row["projects"]) or None,
            row["signed_in_at"],
        )
        for row in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def add_user(client: BerthClient, args: Namespace) -> int:
    """Add a user and print the one-time password and a token once."""
    body: dict[str, Any] = {"username": args.user, "role": args.role, "is_service": args.service}
    if args.project:
        body["projects"] = args.project
    user = client.post(USERS, body).body
    lines = [f"user      {user['username']} ({user['role']})"]
    if user["one_time_password"]:
        lines.append(f"password  {user['one_time_password']}   (one-time, shown only once)")
    lines.append(f"token     {user['token']}   (shown only once)")
    print_result(render(user, args.output, "\n".join(lines)))
    return Exit.OK


def change_role(client: BerthClient, args: Namespace) -> int:
    """Change the role of a user in the whole cluster."""
    return _change_user(client, args, {"role": args.role}, f"{args.user} is now {args.role}")


def deactivate(client: BerthClient, args: Namespace) -> int:
    """End the sessions of a user and refuse the user's tokens."""
    return _change_user(client, args, {"is_active": False}, f"{args.user} is deactivated")


def activate(client: BerthClient, args: Namespace) -> int:
    """Let a deactivated user in again."""
    return _change_user(client, args, {"is_active": True}, f"{args.user} is active")


def reset_password(client: BerthClient, args: Namespace) -> int:
    """Replace the password of a user by a one-time password and print it once."""
    body = client.post(f"{USERS}{quote(args.user)}/reset-password/").body
    text = f"password  {body['one_time_password']}   (one-time, shown only once)"
    print_result(render(body, args.output, text))
    return Exit.OK


def unblock(client: BerthClient, args: Namespace) -> int:
    """Let a user, or an address, sign in again after too many failed attempts."""
    rows = client.pages(BLOCKED, {}, 500)
    found = [row for row in rows if args.user in {row["name"], row["id"]}]
    if not found:
        raise CliError(f"no sign-in of {args.user} is blocked", code=Exit.NOT_FOUND)
    for row in found:
        client.call("DELETE", f"{BLOCKED}{row['id']}/")
    print_result(render(found, args.output, f"{args.user} may sign in again"))
    return Exit.OK


def list_projects(client: BerthClient, args: Namespace) -> int:
    """List the projects that you may see."""
    rows = list(client.pages(PROJECTS, {}, args.limit))
    shown = [
        (
            row["name"],
            "archived" if row["archived_at"] else "open",
            ",".join(f"{name}={value}" for name, value in row["labels"].items()) or None,
            row["description"] or None,
        )
        for row in rows
    ]
    table = columns(("PROJECT", "STATE", "LABELS", "DESCRIPTION"), shown)
    print_result(render(rows, args.output, table))
    return Exit.OK


def add_project(client: BerthClient, args: Namespace) -> int:
    """Create a project without members."""
    body = {"name": args.project, **_project_fields(args)}
    made = client.post(PROJECTS, body).body
    print_result(render(made, args.output, made["name"]))
    return Exit.OK


def change_project(client: BerthClient, args: Namespace) -> int:
    """Rename, describe or label a project; --label replaces all labels."""
    body = _project_fields(args)
    if args.rename:
        body["name"] = args.rename
    if not body:
        raise CliError("nothing to change: see --help", code=Exit.USAGE)
    return _change_project(client, args, body)


def archive(client: BerthClient, args: Namespace) -> int:
    """Accept no more jobs in a project; its jobs continue and stay visible."""
    return _change_project(client, args, {"archived": True})


def restore(client: BerthClient, args: Namespace) -> int:
    """Accept jobs in an archived project again."""
    return _change_project(client, args, {"archived": False})


def delete(client: BerthClient, args: Namespace) -> int:
    """Delete a project that never had a job."""
    try:
        client.call("DELETE", f"{PROJECTS}{quote(args.project)}/")
    except CliError as error:
        if error.code is Exit.CONFLICT:
            error.next_command = f"berth projects archive {args.project}"
        raise
    print_result(render({"deleted": args.project}, args.output, f"{args.project} is deleted"))
    return Exit.OK


def list_members(client: BerthClient, args: Namespace) -> int:
    """List the members of a project."""
    rows = list(client.pages(f"{PROJECTS}{quote(args.project)}/members/", {}, args.limit))
    shown = [(row["username"], row["role"]) for row in rows]
    print_result(render(rows, args.output, columns(("USER", "ROLE"), shown)))
    return Exit.OK


def set_member(client: BerthClient, args: Namespace) -> int:
    """Add a member to a project, or change the role of a member."""
    body = {"username": args.user, "role": args.role}
    row = client.post(f"{PROJECTS}{quote(args.project)}/members/", body).body
    text = f"{row['username']} is {row['role']} in {args.project}"
    print_result(render(row, args.output, text))
    return Exit.OK


def remove_member(client: BerthClient, args: Namespace) -> int:
    """Remove a member from a project; the jobs stay."""
    client.call("DELETE", f"{PROJECTS}{quote(args.project)}/members/{quote(args.user)}/")
    body = {"removed": args.user}
    print_result(render(body, args.output, f"{args.user} is removed from {args.project}"))
    return Exit.OK


def list_tokens(client: BerthClient, args: Namespace) -> int:
    """List tokens, newest first."""
    rows = list(client.pages(_tokens_of(args.user), {}, args.limit))
    headings = ("ID", "NAME", "BEGINS", "ROLE LIMIT", "EXPIRES", "LAST USED")
    fields = ("id", "name", "prefix", "role", "expires_at", "last_used_at")
    shown = [[row[field] for field in fields] for row in rows]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def new_token(client: BerthClient, args: Namespace) -> int:
    """Create a token and print it once."""
    body: dict[str, Any] = {"name": args.name, "role": args.role}
    if args.days is not None:
        body["expires_at"] = (datetime.now(UTC) + timedelta(days=args.days)).isoformat()
    made = client.post(_tokens_of(args.user), body).body
    print_result(render(made, args.output, made["token"]))
    return Exit.OK


def revoke_token(client: BerthClient, args: Namespace) -> int:
    """Revoke a token immediately and permanently."""
    path = _tokens_of(args.user)
    found = [row for row in client.pages(path, {}, 500) if args.token in {row["id"], row["name"]}]
    if not found:
        raise CliError(
            f"there is no token {args.token}",
            code=Exit.NOT_FOUND,
            next_command="berth tokens list",
        )
    if len(found) > 1:
        ids = ", ".join(row["id"] for row in found)
        raise CliError(f"{args.token} names several tokens; use an id: {ids}", code=Exit.USAGE)
    client.call("DELETE", f"{path}{found[0]['id']}/")
    print_result(render(found[0], args.output, f"{found[0]['name']} is revoked"))
    return Exit.OK


def _tokens_of(user: str | None) -> str:
    return TOKENS if user is None else f"{USERS}{quote(user)}/tokens/"


def _change_user(client: BerthClient, args: Namespace, changes: dict[str, Any], text: str) -> int:
    user = client.call("PATCH", f"{USERS}{quote(args.user)}/", body=changes).body
    print_result(render(user, args.output, text))
    return Exit.OK


def _change_project(client: BerthClient, args: Namespace, changes: dict[str, Any]) -> int:
    changed = client.call("PATCH", f"{PROJECTS}{quote(args.project)}/", body=changes).body
    state = "archived" if changed["archived_at"] else "open"
    print_result(render(changed, args.output, f"{changed['name']}  {state}"))
    return Exit.OK


def _project_fields(args: Namespace) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if args.description is not None:
        fields["description"] = args.description
    if args.label:
        fields["labels"] = dict(args.label)
    return fields


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"must be NAME=VALUE, not {text!r}")
    return name, value


def _add_limit(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", type=positive_int, default=100, help="max number of rows (100)")
