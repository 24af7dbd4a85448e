"""The OpenAPI document, taken at its word: requests made from it never fail on our side."""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from schemathesis import GenerationMode, checks

from tallystick import NewEvent, open

EXAMPLES, EXAMPLES_SLOW = 5, 100
ENDLESS = "/v1/follow"
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest.mark.parametrize("count", [EXAMPLES, pytest.param(EXAMPLES_SLOW, marks=pytest.mark.slow)])
def test_no_request_that_the_document_allows_is_a_failure_of_ours(listen: Any, count: int) -> None:
    """Every operation, with data made from its description, valid or not: no 500, and nothing that is not described."""
    store = open("memory:")
    store.append("order/1", [NewEvent("noted", {"n": n}, meta={"org": "acme"}) for n in range(3)])
    served = listen(store)
    try:
        document = served.client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document).exclude(path=ENDLESS)
        schema.config.update(base_url=f"http://127.0.0.1:{served.port}")
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) >= 11
        for operation, mode in product(operations, GenerationMode):
            _try(operation, mode, count)
    finally:
        served.stop()


def _try(operation: Any, mode: GenerationMode, count: int) -> None:
    """Send what is made from one operation's description: what fits it, or what does not."""

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
        case.call_and_validate(checks=CHECKS, timeout=60)

    try:
        send()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # it takes whatever is sent
