"""The OpenAPI document: no request that is made from it fails on our side, and every response is described."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, open
from tests.server.document import try_every_operation

EXAMPLES, EXAMPLES_SLOW = 5, 100
ENDLESS = "/v1/follow"


@pytest.mark.parametrize("count", [EXAMPLES, pytest.param(EXAMPLES_SLOW, marks=pytest.mark.slow)])
def test_no_request_that_the_document_allows_is_a_failure_of_ours(listen: Any, count: int) -> None:
    """Every operation, with data made from its description, valid or not: no 500, and every response is described."""
    store = open("memory:")
    store.append("order/1", [NewEvent("noted", {"n": n}, meta={"org": "acme"}) for n in range(3)])
    served = listen(store)
    try:
        document = served.client.get("/openapi.json").json()
        address = f"http://127.0.0.1:{served.port}"
        assert try_every_operation(document, address, count=count, without=ENDLESS) >= 11
    finally:
        served.stop()


def test_schemas_are_those_of_the_structs(listen: Any) -> None:
    """The document describes the bodies that the handlers decode and return: no schema is written by hand."""
    served = listen(open("memory:"))
    try:
        document = served.client.get("/openapi.json").json()
    finally:
        served.stop()
    append = document["paths"]["/v1/streams/{kind}/{name}/events"]["post"]
    body = append["requestBody"]["content"]["application/json"]["schema"]
    answer = append["responses"]["201"]["content"]["application/json"]["schema"]
    assert (body, answer) == (
        {"$ref": "#/components/schemas/StreamBody"},
        {"$ref": "#/components/schemas/AppendReceipt"},
    )
    assert {"StreamBody", "EventBody", "AppendReceipt", "ProblemDetails"} <= document["components"]["schemas"].keys()
