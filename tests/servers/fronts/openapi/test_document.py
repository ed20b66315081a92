"""The document is valid, and lists every route."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import validate

from calculators.kit.requests.unknown_members import UnknownMembers
from servers.access import DOCS_ROUTES, HEALTH_ROUTES, Access, ApiKeys
from servers.fronts.http import HttpSettings
from servers.fronts.http.routes import (
    FIXED,
    POSTED_ROOT,
    Endpoint,
    Route,
    error_form,
    find_route,
    kept_list,
    methods_at,
)
from servers.fronts.openapi.components import error_ref
from servers.fronts.openapi.document import openapi_document
from tests.servers.fronts.openapi.described import Described

#: Values for the parameters of a path.
_FILLED = {
    "model": "some-model",
    "version": "3",
    "path": "some/path",
    "node": "a-node",
    "calculator": "PassThroughCalculator",
    "file": "index.js",
    "request_id": "id",
    "file_id": "file-1",
    "batch_id": "batch_1",
    "response_id": "resp_1",
    "conversation_id": "conv_1",
    "item_id": "msg_1",
    "completion_id": "chatcmpl-1",
}


@pytest.fixture(scope="module")
def described() -> Described:
    return Described(openapi_document(HttpSettings(), has_batches=True))


def routed(path: str) -> Route:
    route = find_route(path.format_map(_FILLED))
    assert route is not None, f"{path} is in the document, but nothing is served there"
    return route


KEYS = Access(keys=ApiKeys.of_text("secret-key", "a test"), open_routes=("/openapi.json",))


@functools.cache
def with_keys() -> bytes:
    return openapi_document(HttpSettings(access=KEYS))


@functools.cache
def with_rule(rule: UnknownMembers) -> bytes:
    return openapi_document(HttpSettings(unknown_members=rule))


# The other tests measure the code that makes documents; the validator is slow while it is measured.
@pytest.mark.unmeasured
def test_the_document_is_valid_openapi(described: Described) -> None:
    assert described.document["openapi"] == "3.1.0"
    validate(described.document)
    # Documents of other settings; those that are the same are validated once.
    rules = (UnknownMembers.WARN, UnknownMembers.IGNORE)
    for content in {
        openapi_document(HttpSettings(access=KEYS, unknown_members=rule)) for rule in rules
    }:
        validate(json.loads(content))


def test_every_path_of_the_document_is_a_route(described: Described) -> None:
    for path, method, _ in described.operations():
        assert method.upper() in methods_at(path, routed(path)), path


def test_every_route_is_in_the_document(described: Described) -> None:
    documented = {(path, method) for path, method, _ in described.operations()}
    for path, route in FIXED.items():
        for method in set(route.methods) - {"HEAD"}:
            assert (path.rstrip("/") or path, method.lower()) in documented
    found = {routed(path).endpoint for path, _ in documented}
    found |= {each.endpoint for path, _ in documented if (each := kept_list(path, "GET"))}
    assert found == set(Endpoint)


def test_batches_are_described_where_they_are_served() -> None:
    document = Described().document
    assert "/v1/batches" not in document["paths"]
    assert "Batch" not in document["components"]["schemas"]


def test_what_is_kept_is_described_where_it_is() -> None:
    nothing = openapi_document(HttpSettings(max_stored_responses=0))
    document = Described(nothing).document
    assert "/v1/conversations" not in document["paths"]
    assert "get" not in document["paths"]["/v1/chat/completions"]
    assert "Conversation" not in document["components"]["schemas"]


def test_models_are_described_with_and_without_version(described: Described) -> None:
    routes = [
        routed(path) for path, _, _ in described.operations() if path.startswith("/v2/models/")
    ]
    with_version = {route.endpoint for route in routes if route.version}
    assert len(with_version) == 5
    assert with_version == {route.endpoint for route in routes if not route.version}


def test_errors_have_the_form_of_their_path(described: Described) -> None:
    for path, method, operation in described.operations():
        asked = POSTED_ROOT if (path, method) == ("/", "post") else path.format_map(_FILLED)
        expected = error_ref(error_form(asked), 500)
        assert operation["responses"]["500"] == expected, path


def test_everything_that_is_defined_is_used(described: Described) -> None:
    used = Counter(references(described.document))
    defined = {
        f"#/components/{kind}/{name}"
        for kind, members in described.document["components"].items()
        for name in members
    }
    assert set(used) == defined


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for member in value.values():
            yield from references(member)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_examples_fit_their_schemas(described: Described) -> None:
    examples = list(described.examples())
    assert len(examples) > 10
    for path, _, body in examples:
        assert described.request_errors(path, body) == []


def test_examples_name_the_model_that_is_served() -> None:
    described = Described(openapi_document(HttpSettings(), "my-model"))
    models = {body["model"] for _, _, body in described.examples() if "model" in body}
    assert models == {"my-model"}


def test_without_keys_the_document_does_not_mention_them(described: Described) -> None:
    assert "securitySchemes" not in described.document["components"]
    assert not any("security" in operation for _, _, operation in described.operations())


def test_with_keys_all_routes_except_open_ones_need_one() -> None:
    assert b"secret-key" not in with_keys()
    described = Described(with_keys())
    assert set(described.document["components"]["securitySchemes"]) == {
        "bearer",
        "apiKey",
        "googleKey",
    }
    for path, method, operation in described.operations():
        is_open = path in (*HEALTH_ROUTES, *DOCS_ROUTES, "/page/{file}", "/openapi.json")
        is_open = is_open or (path, method) == ("/", "get")
        assert ("security" not in operation) is is_open, path
        assert ("401" not in operation["responses"]) is is_open, path


def test_the_limits_are_the_servers() -> None:
    document = json.loads(openapi_document(HttpSettings(max_body_bytes=12345)))
    assert "12345" in document["components"]["responses"]["OpenAIError413"]["description"]


@pytest.mark.parametrize("path", ["/v3/chat/completions", "/v3/embeddings", "/v3/messages"])
@pytest.mark.parametrize("rule", list(UnknownMembers))
def test_the_rule_for_unknown_members_is_described(rule: UnknownMembers, path: str) -> None:
    described = Described(with_rule(rule))
    body = next(body for at, _, body in described.examples() if at == path)
    assert described.request_errors(path, body) == []
    errors = described.request_errors(path, {**body, "tempurature": 1})
    assert bool(errors) is (rule is UnknownMembers.REFUSE)
