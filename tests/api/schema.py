"""The OpenAPI document of the API, and the comparison of a response with it."""

from functools import cache
from typing import Any

import jsonschema
from drf_spectacular.generators import SchemaGenerator


@cache
def schema() -> dict[str, Any]:
    generator: Any = SchemaGenerator  # untyped
    document: dict[str, Any] = generator().get_schema(request=None, public=True)
    return document


def check_answer(path: str, method: str, status: int, body: Any, *, absent: str = "Brief") -> None:
    """Validate a response against the schema of its operation, which declares every property.

    No part of it may be of a component whose name ends in `absent`.
    """
    response = schema()["paths"][path][method]["responses"][str(status)]
    declared = response["content"]["application/json"]["schema"]
    components: dict[str, Any] = {
        name: False if name.endswith(absent) else _closed(component)
        for name, component in schema()["components"]["schemas"].items()
    }
    jsonschema.validate(
        body,
        {**declared, "components": {"schemas": components}},
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.FormatChecker(),
    )


def _closed(component: dict[str, Any]) -> dict[str, Any]:
    """Return a component that permits no undeclared property; a free object stays free."""
    return {"additionalProperties": False, **component} if "properties" in component else component
