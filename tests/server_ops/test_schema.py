"""The OpenAPI document of operations, where tokens are real: no request that is made from it fails on our side."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.testing.shop import OrderTotals
from tests.server.document import try_every_operation

OURS = ("operations", "projections", "snapshots", "tokens", "runs", "community")


@pytest.mark.parametrize(("tags", "count"), [(("tokens",), 3), pytest.param(OURS, 50, marks=pytest.mark.slow)])
def test_no_order_that_the_document_allows_is_a_failure_of_ours(serve, tags, count):
    """Every operation, valid or not, by an administrator: no 500, and every response is described."""
    running = serve(projections=[OrderTotals()])
    running.append("note/a", {"n": 1})
    secret = running.service.tokens.issue("admin", actor="root").secret
    bearer = {"authorization": f"Bearer {secret}"}
    document = running.client.get("/openapi.json").json()
    paths = {path: item for path, item in document["paths"].items() if _is_tagged(item, tags)}
    found = try_every_operation(document | {"paths": paths}, running.address, count=count, headers=bearer)
    assert found >= 3 * len(tags)
    assert running.client.get("/v1/jobs", headers=bearer).status_code == 200, "nobody revoked it by accident"


def _is_tagged(item: dict[str, Any], tags: tuple[str, ...]) -> bool:
    return any(tag in tags for operation in item.values() for tag in operation.get("tags", ()))
