"""The document as a test reads it: what it says of a request or of an answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from servers.fronts.http import HttpSettings
from servers.fronts.openapi import openapi_document

_ROOT: Final = "urn:openapi"
METHODS: Final = ("get", "post", "put", "delete", "patch")


class Described:
    """One document."""

    def __init__(self, content: bytes | None = None) -> None:
        """``content``: the default is that of a server without settings."""
        self.document: dict[str, Any] = json.loads(content or openapi_document(HttpSettings()))
        self._open = _registry(self.document)
        self._closed = _registry(_closed(self.document))

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Path, method and operation."""
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield path, method, item[method]

    def examples(self) -> Iterator[tuple[str, str, Any]]:
        """Path, method and body of every example of a request."""
        for path, method, operation in self.operations():
            content = operation.get("requestBody", {}).get("content", {})
            for said in content.get("application/json", {}).get("examples", {}).values():
                yield path, method, said["value"]

    def request_errors(self, path: str, body: object) -> list[str]:
        """What the schema of a request's JSON has against ``body``."""
        schema = self.document["paths"][path]["post"]["requestBody"]["content"]
        return self.errors(schema["application/json"]["schema"], body)

    def answer(self, path: str, method: str, status: int) -> dict[str, Any]:
        """What is said of an answer; an assertion fails where nothing is."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        assert str(status) in responses, f"{method} {path} does not say that it may answer {status}"
        found: dict[str, Any] = self.resolved(responses[str(status)])
        return found

    def resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        """What a reference stands for."""
        if "$ref" not in value:
            return value
        found: Any = self.document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return dict(found)

    def check_answer(
        self, path: str, method: str, status: int, content_type: str, body: bytes
    ) -> None:
        """See that an answer is as the document says, and has no member that it does not name."""
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
        """What a schema has against a value. ``closed``: no members but those that are named."""
        registry = self._closed if closed else self._open
        schema = _absolute(_closed(schema) if closed else schema)
        found = Draft202012Validator(schema, registry=registry).iter_errors(value)
        return [f"{error.json_path}: {error.message[:300]}" for error in found]


def events(body: bytes) -> list[Any]:
    """The JSON of each event, without ``[DONE]``."""
    lines = [line for line in body.decode().splitlines() if line.startswith("data: ")]
    assert lines
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


def _registry(document: dict[str, Any]) -> Any:
    resource = Resource.from_contents(document, default_specification=DRAFT202012)
    return Registry().with_resource(_ROOT, resource)


def _absolute(schema: Any) -> Any:
    """The same with references that say in which document they are."""
    if isinstance(schema, dict):
        return {
            name: _ROOT + value if name == "$ref" else _absolute(value)
            for name, value in schema.items()
        }
    return [_absolute(each) for each in schema] if isinstance(schema, list) else schema


def _closed(value: Any) -> Any:
    """The same where objects with named members have no others."""
    if isinstance(value, list):
        return [_closed(each) for each in value]
    if not isinstance(value, dict):
        return copy.copy(value)
    made = {name: _closed(member) for name, member in value.items()}
    if value.get("type") == "object" and "properties" in value:
        made.setdefault("additionalProperties", False)
    return made
