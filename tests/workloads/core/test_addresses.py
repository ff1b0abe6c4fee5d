"""Names of new applications, by what their addresses in the REST API would be."""

from typing import Final

import pytest

from apps.common.core.errors import InvalidInputError
from apps.workloads.core.addresses import SUB_ROUTES, require_addressable
from tests.permissions.routes import all_routes

UUID: Final = "01890000-0000-7000-8000-000000000000"
OF_APPLICATIONS: Final = "api/v1/applications/<path:key>/"


@pytest.mark.parametrize(
    "name",
    [
        *("estimates", "spark/sort", "sort/estimates/2", "sort/my-estimates", "a//b", "x/1.0"),
        *(f"sort/overrides/{UUID}/x", f"sort/{UUID}", "a..b/c", UUID.replace("-", "")),
    ],
)
def test_a_name_whose_address_is_its_own_is_accepted(name: str) -> None:
    require_addressable(name, at="/name")


@pytest.mark.parametrize(
    "name",
    [
        *("sort/estimates", "spark/sort/measurements", "sort/overrides/preview", "a/b/overrides"),
        *(f"sort/overrides/{UUID}", "a/../b", "a/./b"),
    ],
)
def test_a_name_whose_address_is_that_of_something_else_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        require_addressable(name, at="/name")
    (problem,) = raised.value.problems
    assert (problem.pointer, problem.code) == ("/name", "reserved")
    assert problem.detail.endswith(f"not {name!r}"[:64])


def test_every_route_of_an_application_is_known() -> None:
    found = [route for route in all_routes() if route.startswith(OF_APPLICATIONS)]
    assert sorted(found) == [OF_APPLICATIONS + route for route in sorted(SUB_ROUTES)]
