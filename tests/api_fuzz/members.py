"""Requests in which one place of the body has every kind of value, against a real server.

``python -m tests.api_fuzz.members`` walks the schemas of the document's JSON bodies. At each place
it puts a few values of every JSON type and the values at the ends of the ranges, asks the server,
and compares: what the document allows is accepted, and what it does not allow is refused. Unlike
schemathesis it makes the same requests every time and forgets no member. A schema that several
endpoints share is walked once.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.api_fuzz.acceptance import BEYOND_SCHEMAS
from tests.api_fuzz.hooks import before_call
from tests.api_fuzz.site import MODEL, make_site
from tests.process.http_client import HttpClient
from tests.process.server_process import ServerProcess
from tests.servers.fronts.openapi.described import Described

#: A value of each JSON type.
FEW: Final[tuple[Any, ...]] = (None, True, 1, 1.5, "", "a", [], ["a"], [{}], {}, {"a": 1})
MANY: Final[tuple[Any, ...]] = (
    *FEW,
    *(False, 0, -1, 2, 1.0, -1.5, 2**31, 2**32, 2**63, 2**64, 1e300),
    *(" ", "1", "true", "é\u0000", "auto", "none"),
    *([None], [1], [1.5], [""], [[]], [["a"]], [[1]]),
    *({"a": None}, {"a": "b"}, {"a": {}}, {"type": "text"}, {"type": "a"}, {"type": 1}),
    *({"type": "object"}, {"name": "a"}),
)
_JSON: Final = "application/json"
#: Statuses of a refused body.
_REFUSED: Final = (400, 413, 415, 422)
#: The longest text or array at the end of a range.
_LONG: Final = 70_000
_DEEP: Final = 12
#: Aliases, paths of authors, paths with the forms of several tasks or servers, what is loaded
#: from elsewhere, and pictures, which take long to draw.
_LEFT_OUT: Final = re.compile(
    r"/v1|/v3/v1|/v3/\{path\}|/v3/(de)?tokenize$|/generate$|/v2/repository|/api/pull|/v3/images"
)

Put = Callable[[Any], Any]


class Bodies:
    """Bodies of a document's requests; each place of a schema is changed once in the whole."""

    def __init__(self, described: Described, values: Sequence[Any] = MANY) -> None:
        self._described = described
        self._values = values
        self._seen: set[str] = set()

    def of(self, path: str) -> Iterator[tuple[str, Any]]:
        """Yield the place that was changed, and the body."""
        operation = self._described.document["paths"][path]["post"]
        content = operation["requestBody"]["content"][_JSON]
        bases = [said["value"] for said in content.get("examples", {}).values()]
        yield from self._inside(content["schema"], "", lambda value: value, bases, 0)

    def _at(
        self, schema: Any, place: str, put: Put, bases: Sequence[Any], depth: int
    ) -> Iterator[tuple[str, Any]]:
        """Yield bodies with each value at a place, and with changes inside it."""
        known = f"{place.rpartition('.')[2]} {json.dumps(schema)}"
        if known in self._seen:
            return
        self._seen.add(known)
        for value in (*self._values, *self._ends(self._resolved(schema))):
            yield place, put(value)
        yield from self._inside(schema, place, put, bases, depth)

    def _inside(
        self, schema: Any, place: str, put: Put, bases: Sequence[Any], depth: int
    ) -> Iterator[tuple[str, Any]]:
        name = schema.get("$ref", "")
        if depth > _DEEP or name in self._seen:
            return
        if name:
            self._seen.add(name)
        schema = self._resolved(schema)
        for each in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            for value in self._ends(self._resolved(each)):
                yield place, put(value)
            yield from self._inside(each, place, put, bases, depth + 1)
        for name, each in schema.get("properties", {}).items():
            base = self._base(schema, bases)
            where = f"{place}.{name}"
            yield where, put({key: value for key, value in base.items() if key != name})
            inner = [each[name] for each in bases if isinstance(each, dict) and name in each]
            yield from self._at(each, where, _member(put, base, name), inner, depth + 1)
        if isinstance(more := schema.get("additionalProperties"), dict):
            yield from self._at(more, f"{place}.*", _member(put, {}, "a"), [], depth + 1)
        if items := schema.get("items"):
            inner = [item for each in bases if isinstance(each, list) for item in each]
            rest = [self.sample(items)] * (schema.get("minItems", 1) - 1)
            yield from self._at(items, f"{place}[]", _first(put, rest), inner, depth + 1)

    def _base(self, schema: Any, bases: Sequence[Any]) -> dict[str, Any]:
        """Return a valid object in which a member can be changed: an example, if there is one."""
        fixed = {
            name: each["const"]
            for name, each in schema.get("properties", {}).items()
            if "const" in each
        }
        for base in bases:
            if isinstance(base, dict) and fixed.items() <= base.items():
                return base
        made = self.sample(schema)
        return made if isinstance(made, dict) else {}

    def _resolved(self, schema: Any) -> Any:
        while "$ref" in schema:
            schema = self._described.resolved(schema)
        return schema

    def _ends(self, schema: Any) -> Iterator[Any]:
        """Yield words, and values at the ends of ranges and just beyond."""
        step = 1 if schema.get("type") == "integer" else 0.01
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if name in schema:
                yield from (schema[name], schema[name] - step, schema[name] + step)
        yield from schema.get("enum", ())
        if "const" in schema:
            yield schema["const"]
        for of, keyword in (("Length", "a"), ("Items", self.sample(schema.get("items", {})))):
            for name in (f"min{of}", f"max{of}"):
                size = schema.get(name, _LONG)
                if size < _LONG:
                    for each in (size - 1, size, size + 1):
                        yield "a" * each if of == "Length" else [keyword] * max(each, 0)
        inner = self.sample(schema.get("additionalProperties") or {})
        if schema.get("maxProperties", _LONG) < _LONG:
            for size in (schema["maxProperties"], schema["maxProperties"] + 1):
                yield {f"a{n}": inner for n in range(size)}
        if (longest := schema.get("propertyNames", {}).get("maxLength")) is not None:
            yield from ({"a" * longest: inner}, {"a" * (longest + 1): inner})
        if schema.keys() & {"properties", "items", "pattern"}:
            yield self.sample(schema)

    def sample(self, schema: Any) -> Any:
        """Return a small value that the schema allows, or nearly so."""
        schema = self._resolved(schema) if isinstance(schema, dict) else {}
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        if "enum" in schema:
            return schema["enum"][0]
        if "anyOf" in schema and "properties" not in schema:
            return self.sample(schema["anyOf"][0])
        kind = schema.get("type", "string")
        match kind if isinstance(kind, str) else kind[0]:
            case "object":
                names = list(schema.get("required", ()))
                names += schema.get("anyOf", [{}])[0].get("required", ())
                members = schema.get("properties", {})
                return {name: self.sample(members.get(name)) for name in names}
            case "array":
                return [self.sample(schema.get("items"))] * max(schema.get("minItems", 0), 1)
            case "integer" | "number":
                least = schema.get("exclusiveMinimum", schema.get("minimum", 0) - 1) + 1
                return max(least, 1) if schema.get("maximum", 1) >= 1 else least
            case "boolean":
                return True
            case "null":
                return None
            case _:
                is_bytes = "contentEncoding" in schema
                return "aGVsbG8=" if is_bytes else "a" * max(schema.get("minLength", 1), 1)


def _member(put: Put, base: dict[str, Any], name: str) -> Put:
    return lambda value: put({**base, name: value})


def _first(put: Put, rest: list[Any]) -> Put:
    return lambda value: put([value, *rest])


def differences(client: HttpClient, values: Sequence[Any] = MANY, paths: str = "") -> Iterator[str]:
    """Yield each difference between a server and its document, with the request and the answer.

    ``paths``: a regular expression of the paths to request; all if empty.
    """
    described = Described(client.get("/openapi.json").body)
    bodies = Bodies(described, values)
    for path, method, operation in described.operations():
        has_json = _JSON in operation.get("requestBody", {}).get("content", {})
        if method != "post" or not has_json or _LEFT_OUT.match(path):
            continue
        if re.search(paths, path) is None:
            continue
        asked = set()
        check = described.checker(operation["requestBody"]["content"][_JSON]["schema"])
        for place, body in bodies.of(path):
            url, body = _reaching_models(path, body)
            text = json.dumps(body)
            if text in asked:
                continue
            asked.add(text)
            answer = client.ask("POST", url, text)
            said = answer.body.decode(errors="replace")
            shown = f"POST {url} at {place or 'the top'}: {text[:300]}\n    {said[:300]}"
            if answer.status >= 500 and answer.status not in (501, 503, 504):
                yield f"{answer.status}: {shown}"
            elif answer.status < 400 and (errors := check(body)):
                yield f"accepted, though not documented: {shown}\n    {errors[0]}"
            elif (
                answer.status in _REFUSED
                and BEYOND_SCHEMAS.search(said) is None
                and not check(body)
            ):
                yield f"refused, though documented: {shown}"


def _reaching_models(path: str, body: Any) -> tuple[str, Any]:
    """Return a path and a body that name models and ask for short answers."""
    case = SimpleNamespace(
        body=copy.deepcopy(body),
        operation=SimpleNamespace(path=path),
        query={},
        headers={},
        path_parameters=dict.fromkeys(re.findall(r"\{(\w+)\}", path), MODEL),
    )
    if "version" in case.path_parameters:
        case.path_parameters["version"] = "1"
    before_call(None, case, {})
    return path.format_map(case.path_parameters), case.body


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.api_fuzz.members", description=__doc__)
    parser.add_argument("--paths", default="", help="a regular expression of paths")
    arguments = parser.parse_args()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        config = make_site(Path(folder))
        with ServerProcess(config, "--batch_dir", Path(folder) / "store") as server:
            for found in differences(server.client, paths=arguments.paths):
                count += 1
                print(found, flush=True)
    print(f"{count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
