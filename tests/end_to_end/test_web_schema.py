"""The server against its own description: whatever may be sent, each answer is as /openapi.json has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kb.loading import document_id
from kb.web.app import ROUTERS
from tests.pdf_writer import pdf
from tests.web_server import WebServer, serving

EXAMPLES = 30
"""Of each operation, with what fits the description and with what doesn't."""
LONGEST_ADDRESS = 8_000
"""A longer one is no request for the server: it says 400 and closes the connection."""
REAL = {"document_id": document_id("refunds.pdf"), "number": 1}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
CHECKS += [response_headers_conformance, negative_data_rejection]
CONFIG = {
    # A body that is longer than any request is refused before it is read.
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 404, 405, 413, 415, 422]}},
}


def described_operations() -> dict[str, dict[str, Any]]:
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    paths: dict[str, dict[str, dict[str, Any]]] = app.openapi()["paths"]
    return {f"{method.upper()} {path}": told for path, methods in paths.items() for method, told in methods.items()}


def can_be_wrong(told: dict[str, Any]) -> bool:
    """Whether a request can break its description: any text is a text, and without parameters nothing is wrong."""
    any_text = {"type": "string"}
    schemas = [{**parameter["schema"], "title": ""} for parameter in told.get("parameters", [])]
    return "requestBody" in told or any(schema != {**any_text, "title": ""} for schema in schemas)


OPERATIONS = [
    (label, mode)
    for label, told in described_operations().items()
    for mode in GenerationMode
    if mode.is_positive or can_be_wrong(told)
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    folder = tmp_path_factory.mktemp("served")
    documents = folder / "documents"
    documents.mkdir()
    (documents / "refunds.pdf").write_bytes(pdf([["Goods are taken back within 30 days."]], title="Refunds"))
    (documents / "退款.md").write_text("# 退款\n\n商店在三十天内接受退货。\n", encoding="utf-8")
    (documents / "返品.md").write_text("# 返品\n\n返品は三十日以内に受け付けます。\n", encoding="utf-8")
    with serving(folder, "[web]\nworkers = 1\nrequests_per_minute = 0\n") as served:
        served.settled()
        yield served


@pytest.fixture(scope="module")
def described(server: WebServer) -> Any:
    config = schemathesis.Config.from_dict(CONFIG)
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)


@pytest.mark.parametrize(("operation", "mode"), OPERATIONS)
def test_every_answer_is_as_described(server: WebServer, described: Any, operation: str, mode: GenerationMode) -> None:
    method, path = operation.split(" ")
    found = described[path][method]
    jobs = server.client.get("/ingest").json()["jobs"]
    real = {name: value for name, value in {**REAL, "job": jobs[-1]["id"]}.items() if f"{{{name}}}" in path}
    cases = found.as_strategy(mode)
    if real:
        cases = st.one_of(cases, found.as_strategy(mode, path_parameters=real))

    @given(cases)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def each_is(case: Any) -> None:
        assume(len(case.as_curl_command()) < LONGEST_ADDRESS or case.body is not NOT_SET)
        case.call_and_validate(timeout=30, checks=CHECKS)

    each_is()
    server.settled()
    assert server.client.get("/healthz").status_code == 200
