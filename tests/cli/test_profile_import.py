"""berth profile import."""

import json
from pathlib import Path

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.profiling.core.report import seal
from apps.profiling.models import Measurement, ReportKey
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth

pytestmark = pytest.mark.django_db(transaction=True)
KEY = b"k" * 32
BODY = {
    "format": "berth-profile-1", "command": ["xz", "in"], "cpu_share": 0.5,
    "sources": [
        {"stressor": "tlb", "source": "tlb", "state": "not_reached", "points": [],
         "stressor_speed": 0.9}
    ],
}  # fmt: skip


@pytest.fixture
def user() -> User:
    factories.cluster()
    return factories.user("anna", role=Role.OPERATOR)


def test_a_signed_report_is_imported(berth: Berth, tmp_path: Path) -> None:
    ReportKey.objects.create(name="workshop", secret=KEY)
    path = tmp_path / "xz.json"
    path.write_text(json.dumps(seal(BODY, KEY)))
    code, out, err = berth("profile", "--app", "squeeze", "import", str(path))
    assert (code, out, err) == (Exit.OK, "squeeze: 2 measurements, signed by workshop.\n", "")
    assert {row.application.name for row in Measurement.objects.all()} == {"squeeze"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(("import",), "name one file"), (("import", "/no/such.json"), "No such file")],
)
def test_a_file_must_be_named(berth: Berth, arguments: tuple[str, ...], text: str) -> None:
    code, _, err = berth("profile", *arguments)
    assert code == Exit.USAGE
    assert text in err
