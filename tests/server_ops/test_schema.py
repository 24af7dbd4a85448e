"""The OpenAPI document of operating, taken at its word, where tokens are real: nothing fails on our side."""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from schemathesis import GenerationMode, checks

from tallystick.testing.shop import OrderTotals

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OURS = ("operations", "projections", "snapshots", "tokens", "runs", "community")


@pytest.mark.parametrize(("tags", "count"), [(("tokens",), 3), pytest.param(OURS, 50, marks=pytest.mark.slow)])
def test_no_order_that_the_document_allows_is_a_failure_of_ours(serve, tags, count):
    """Every operation, valid or not, by an administrator: no 500, and no answer that is not described."""
    running = serve(projections=[OrderTotals()])
    running.append("note/a", {"n": 1})
    secret = running.service.tokens.issue("admin", actor="root").secret
    bearer = {"authorization": f"Bearer {secret}"}
    document = running.client.get("/openapi.json").json()
    paths = {path: item for path, item in document["paths"].items() if _is_tagged(item, tags)}
    schema = schemathesis.openapi.from_dict(document | {"paths": paths})
    schema.config.update(base_url=running.address)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 3 * len(tags)
    for operation, mode in product(operations, GenerationMode):
        _try(operation, mode, count, bearer)
    assert running.client.get("/v1/jobs", headers=bearer).status_code == 200, "nobody revoked it by accident"


def _is_tagged(item: dict[str, Any], tags: tuple[str, ...]) -> bool:
    return any(tag in tags for operation in item.values() for tag in operation.get("tags", ()))


def _try(operation: Any, mode: GenerationMode, count: int, headers: dict[str, str]) -> None:
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
        assert mode is GenerationMode.NEGATIVE  # it takes whatever is sent
