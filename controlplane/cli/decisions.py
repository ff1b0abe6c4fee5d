"""The verbs of `berth decision`: stored decisions, repeated and compared."""

import json
from argparse import Namespace
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs

DECISIONS: Final = "/api/v1/decisions/"
SHOWN: Final = 20  # differences of a table


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("decision", "repeat stored decisions of the agents")
    noun.add("replay", replay).add_argument("id", help="of the decision")


def replay(client: BerthClient, args: Namespace) -> int:
    """Decide again on the same cluster, request and seed; exit code 1 if anything differs."""
    found = client.post(f"{DECISIONS}{args.id}/replay/").body
    print_result(render(found, args.output, _table(found)))
    return Exit.OK if found["verdict"] == "identical" else Exit.FAILED


def _table(found: dict[str, Any]) -> str:
    changed = [
        f"{each['field']} was {_text(each['stored'])}, is {_text(each['now'])}"
        for each in found["changed"]
    ]
    if found["verdict"] == "unavailable":
        return f"Cannot be repeated: {found['detail']}."
    batch = f"job {found['position'] + 1} of {found['jobs']} decided together"
    if found["verdict"] == "identical":
        return "\n".join([f"Identical in every field ({batch}).", *changed])
    rows = [
        [each["field"], _text(each["stored"]), _text(each["now"])]
        for each in found["differences"][:SHOWN]
    ]
    more = len(found["differences"]) - len(rows)
    return "\n".join(
        [
            f"Different ({batch}).",
            columns(("FIELD", "STORED", "NOW"), rows),
            *([f"{more} more; --json lists all."] if more else []),
            *changed,
        ]
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
