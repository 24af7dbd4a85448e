"""Requests that are made from the OpenAPI document, valid and not, and what holds for every response."""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, given
from schemathesis import GenerationMode, checks

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def try_every_operation(
    document: dict[str, Any], address: str, *, count: int, headers: dict[str, str] | None = None, without: str = ""
) -> int:
    """Send so many requests per operation and mode, and check the responses. Returns the number of operations."""
    schema = schemathesis.openapi.from_dict(document)
    if without:
        schema = schema.exclude(path=without)
    schema.config.update(base_url=address)
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation, mode in product(operations, GenerationMode):
        _try(operation, mode, count, headers or {})
    return len(operations)


def _try(operation: Any, mode: GenerationMode, count: int, headers: dict[str, str]) -> None:
    """Send requests that fit the description of an operation, or that do not."""

    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, headers=headers, timeout=60)

    try:
        send()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # every request fits the description
