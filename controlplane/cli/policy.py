"""berth policy: the policies of this installation, their contract, and the one in use."""

import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Final

from controlplane.cli.config import load_config
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, facts, print_result, render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.scheduling.core.registry import Entry
    from apps.testbed.core.replay.queueing.registry import QueueingEntry
    from controlplane.cli.client import BerthClient

POLICIES: Final = "/api/v1/policies/"
DEFAULT_POLICY: Final = f"{POLICIES}default/"


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("policy", "list and test policies; show or apply that of the cluster")
    noun.add_offline("list", listed, __doc__).add_argument(
        "--local", action="store_true", help="those of this installation, without the server"
    )
    parser = noun.add_offline("test", tested, __doc__)
    parser.add_argument("name", metavar="NAME", help="policy, as in berth policy list")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PARAMETER=VALUE",
        help="parameter of the policy; may be repeated",
    )
    noun.add("show", shown).add_argument(
        "name", nargs="?", metavar="NAME", help="policy; that of the cluster if omitted"
    )
    parser = noun.add("apply", applied)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("name", nargs="?", metavar="NAME", help="policy of the cluster")
    chosen.add_argument("--reset", action="store_true", help="use BERTH_POLICY again")
    parser.add_argument("--reason", required=True, help="for the audit log")


def shown(client: "BerthClient", args: Namespace) -> int:
    """Show the policy of the cluster and who applied it, or a named policy with its parameters."""
    if args.name:
        return _show_one(client.get(POLICIES)["results"], args)
    response = client.get(DEFAULT_POLICY)
    print_result(render(response, args.output, facts(_filled(response))))
    return Exit.OK


def _show_one(policies: list[dict[str, Any]], args: Namespace) -> int:
    found = next((each for each in policies if each["name"] == args.name), None)
    if found is None:
        raise CliError(f"policy {args.name} not found", code=Exit.NOT_FOUND,
                       next_command="berth policy list")  # fmt: skip
    head = {
        "policy": found["name"],
        "source": found["source"],
        "score, higher is better": found["formula"],
    }
    parameters = found["parameters"]["properties"]
    rows = [
        [name, f"{each['default']:g}", each.get("description")]
        for name, each in parameters.items()
    ]
    lines = [facts(head)]
    if rows:
        lines += ["", columns(("parameter", "default", "meaning"), rows)]
    print_result(render(found, args.output, "\n".join(lines)))
    return Exit.OK


def applied(client: "BerthClient", args: Namespace) -> int:
    """Apply a policy to the cluster; agents follow without a restart."""
    from controlplane.cli.client import if_match  # noqa: PLC0415 - offline verbs need no HTTP

    before = client.get(DEFAULT_POLICY)
    body = {"policy": None if args.reset else args.name, "reason": args.reason}
    after = client.call("PUT", DEFAULT_POLICY, body=body, headers=if_match(before)).body
    print_result(render(after, args.output, facts(_filled(after))))
    return Exit.OK


def _filled(response: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value == "" else value for name, value in response.items()}


def listed(args: Namespace) -> int:
    """List the policies with their sources, formulas and parameters."""
    from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES  # noqa: PLC0415

    policies = _local_policies() if args.local or not _is_logged_in() else _policies_of_server()
    policies += [
        _described(name, entry, is_default=False) for name, entry in TESTBED_POLICIES.items()
    ]
    document = [
        {**each, "only_in_replays": each["name"] in TESTBED_POLICIES}
        for each in sorted(policies, key=lambda policy: str(policy["name"]))
    ]
    rows = [
        [
            each["name"],
            each["source"],
            each["formula"],
            _parameters(each["parameters"]["properties"]),
            "replays" if each["only_in_replays"] else "",
        ]
        for each in document
    ]
    table = columns(("name", "source", "score, higher is better", "parameters", "only in"), rows)
    print_result(render(document, args.output, table))
    return Exit.OK


def _is_logged_in() -> bool:
    return load_config(os.environ).token is not None


def _policies_of_server() -> list[dict[str, Any]]:
    from controlplane.cli.client import client_of  # noqa: PLC0415 - the others need no HTTP

    with client_of(os.environ, None) as client:
        return list(client.get(POLICIES)["results"])


def _local_policies() -> list[dict[str, Any]]:
    policies, default, _ = _policies()
    return [
        _described(name, entry, is_default=name == default) for name, entry in policies.items()
    ]


def _described(name: str, entry: "Entry | QueueingEntry", *, is_default: bool) -> dict[str, Any]:
    return {
        "name": name,
        "is_default": is_default,
        "source": entry.source,
        "summary": entry.summary,
        "formula": entry.formula,
        "parameters": entry.schema(),
    }


def tested(args: Namespace) -> int:
    """Run the contract suite on a policy; fails if it breaks the contract."""
    # imported here, as numpy is slow to import
    from apps.scheduling.core.contract import CHECKS, failures  # noqa: PLC0415
    from apps.scheduling.core.policy_errors import PolicyFailedError  # noqa: PLC0415
    from apps.scheduling.core.registry import (  # noqa: PLC0415
        PolicyParameterError,
        UnknownPolicyError,
        make,
    )
    from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES  # noqa: PLC0415

    _policies()
    if args.name in TESTBED_POLICIES:
        raise CliError(f"{args.name} only runs in replays; agents cannot use it",
                       code=Exit.USAGE)  # fmt: skip
    parameters = dict(map(_value, args.set))
    try:
        make(args.name, parameters)
    except (UnknownPolicyError, PolicyParameterError) as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    except PolicyFailedError as error:
        raise CliError(error.detail, code=Exit.FAILED) from error
    failed = {each.check: each.message for each in failures(lambda: make(args.name, parameters))}
    document = {
        "policy": args.name,
        "parameters": parameters,
        "passed": len(CHECKS) - len(failed),
        "checks": [
            {"check": name, "is_passed": name not in failed, "message": failed.get(name)}
            for name in CHECKS
        ],
    }
    rows = [[name, failed.get(name, "ok")] for name in CHECKS]
    print_result(render(document, args.output, columns(("check", "result"), rows)))
    return Exit.FAILED if failed else Exit.OK


def _policies() -> "tuple[dict[str, Entry], str, list[str]]":
    """Return the policies by name, the default one, and the names of those of other packages."""
    from apps.scheduling.core import registry  # noqa: PLC0415
    from apps.scheduling.infrastructure.plugins import (  # noqa: PLC0415
        PolicyPluginError,
        load_policies,
    )

    try:
        added = load_policies()
    except PolicyPluginError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    return registry.POLICIES, registry.DEFAULT, added


def _parameters(properties: dict[str, Any]) -> str:
    return ", ".join(f"{name}={each['default']:g}" for name, each in properties.items()) or "-"


def _value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError as error:
        raise CliError(
            f"--set must look like PARAMETER=NUMBER, not {text!r}", code=Exit.USAGE
        ) from error
    return name, int(number) if number.is_integer() else number
