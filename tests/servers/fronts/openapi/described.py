"""The OpenAPI document as tests read it: its schemas of requests and answers."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from servers.fronts.http import HttpSettings
from servers.fronts.openapi.document import openapi_document

_ROOT: Final = "urn:openapi"
METHODS: Final = ("get", "post", "put", "delete", "patch")


class Described:
    """A document."""

    def __init__(self, content: bytes | None = None) -> None:
        """Read a document. ``content``: by default that of a server without settings."""
        self._content = content

    # Test files make one when they are imported, also where none of their tests is wanted.
    @cached_property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self._content or _plain_document()))

    @cached_property
    def _open(self) -> Any:
        return _registry(self.document)

    @cached_property
    def _closed(self) -> Any:
        return _registry(_closed(self.document))

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield path, method and operation."""
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield path, method, item[method]

    def examples(self) -> Iterator[tuple[str, str, Any]]:
        """Yield path, method and body of every example of a request."""
        for path, method, operation in self.operations():
            content = operation.get("requestBody", {}).get("content", {})
            for said in content.get("application/json", {}).get("examples", {}).values():
                yield path, method, said["value"]

    def request_errors(self, path: str, body: object, media: str = "application/json") -> list[str]:
        """Return the violations of the request's schema in ``body``."""
        schema = self.document["paths"][path]["post"]["requestBody"]["content"]
        return self.errors(schema[media]["schema"], body)

    def answer(self, path: str, method: str, status: int) -> dict[str, Any]:
        """Return the description of an answer; fail if there is none."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path} does not say that it may answer {status}"
        found: dict[str, Any] = self.resolved(responses[str(status)])
        return found

    def resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        """Resolve a reference."""
        if "$ref" not in value:
            return value
        found: Any = self.document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return dict(found)

    def check_answer(
        self, path: str, method: str, status: int, content_type: str, body: bytes
    ) -> None:
        """Check that an answer fits the document, and has no undocumented member."""
        said = self.answer(path, method, status)
        if not body:
            assert "content" not in said
            return
        media = content_type.partition(";")[0]
        assert media in said["content"], f"{method} {path} answers {status} with {media}"
        schema = said["content"][media].get("schema", {})
        if media == "application/json":
            assert self.errors(schema, json.loads(body), closed=True) == []
        elif media == "text/event-stream":
            data = schema["properties"]["data"]
            for event in events(body):
                expected = data.get("anyOf", [data])[-1]["contentSchema"]
                assert self.errors(expected, event, closed=True) == []

    def errors(self, schema: dict[str, Any], value: object, *, closed: bool = False) -> list[str]:
        """Return a value's violations of a schema. ``closed``: no members except named ones."""
        return self.checker(schema, closed=closed)(value)

    def checker(
        self, schema: dict[str, Any], *, closed: bool = False
    ) -> Callable[[object], list[str]]:
        """Return a function that returns a value's violations of a schema; see `errors`."""
        registry = self._closed if closed else self._open
        schema = _absolute(_closed(schema) if closed else schema)
        validator = Draft202012Validator(schema, registry=registry)

        def errors(value: object) -> list[str]:
            found = validator.iter_errors(value)
            return [f"{error.json_path}: {error.message[:300]}" for error in found]

        return errors


def events(body: bytes) -> list[Any]:
    """Return the JSON of each event, without ``[DONE]``."""
    lines = [line for line in body.decode().splitlines() if line.startswith("data: ")]
    assert lines
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


@functools.cache
def _plain_document() -> bytes:
    return openapi_document(HttpSettings())


def _registry(document: dict[str, Any]) -> Any:
    resource = Resource.from_contents(document, default_specification=DRAFT202012)
    return Registry().with_resource(_ROOT, resource)


def _absolute(schema: Any) -> Any:
    """Return the schema with references that name their document."""
    if isinstance(schema, dict):
        return {
            name: _ROOT + value if name == "$ref" else _absolute(value)
            for name, value in schema.items()
        }
    return [_absolute(each) for each in schema] if isinstance(schema, list) else schema


def _closed(value: Any) -> Any:
    """Return the schema in which objects with named members have no others."""
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return copy.copy(value)
    made = {name: _closed(member) for name, member in value.items()}
    if value.get("type") == "object" and "properties" in value:
        made.setdefault("additionalProperties", False)
    return made
