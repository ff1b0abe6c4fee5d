"""Sizing allowances on the System page."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.common.core.ids import uuid7
from apps.scheduling.services.allowances import JobSpeed, record_speeds
from tests import factories

pytestmark = pytest.mark.django_db


def test_the_system_page_shows_allowances_with_their_history(as_operator: Client) -> None:
    factories.cluster()
    assert "as installed" in as_operator.get(reverse("system")).content.decode()
    for at_s, ratio in ((100.0, 0.6), (200.0, 0.5)):
        speeds = [JobSpeed(uuid7(), "ips", ratio, at_s + i) for i in range(30)]
        record_speeds(speeds, now_s=at_s)
    page = as_operator.get(reverse("system")).content.decode()
    row = page[page.index("<td>instructions/s</td>") :].split("</tr>")[0]
    assert '<td class="num">0.633</td>' in row
    assert '<td class="num">60</td>' in row
    assert "0.750" in row  # the one before
