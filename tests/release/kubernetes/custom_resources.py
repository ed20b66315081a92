"""Objects of Kubernetes, checked against the schemas of their kinds.

    python -m tests.release.kubernetes.custom_resources CRD.yaml ...

writes the schemas in ``schemas/`` anew from definitions of custom resources; ``schemas/README.md``
says where these come from.

Schemas do not hold everything that a cluster checks: rules in CEL, webhooks and defaults are not
part of them.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml

SCHEMAS: Final = Path(__file__).parent / "schemas"
#: The version of Kubernetes whose own kinds are checked.
KUBERNETES: Final = "1.34"
#: Members of a custom resource that every object has.
_COMMON: Final = ("apiVersion", "kind", "metadata")
_KEPT_FREE: Final = "x-kubernetes-preserve-unknown-fields"


class Misfit(Exception):
    """An object does not fit the schema of its kind; the text says where and why."""


def objects_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of YAML."""
    yield from (each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None)


def check(value: Mapping[str, Any]) -> None:
    """Check an object, with every name in it, against the schema of its kind.

    Raises:
        Misfit: it does not fit, or there is no schema.
    """
    group, _, version = value["apiVersion"].rpartition("/")
    file = _file_of(group, version, value["kind"])
    if file.exists():
        error = jsonschema.exceptions.best_match(_validator(file).iter_errors(value))
        if error is not None:
            raise Misfit(f"{value['kind']} at {error.json_path}: {error.message}")
        return
    try:
        kubernetes_validate.validate(value, KUBERNETES, strict=True)
    except (
        kubernetes_validate.ValidationError,
        kubernetes_validate.SchemaNotFoundError,
    ) as error:
        raise Misfit(f"{value['kind']}: {error}") from error


def _file_of(group: str, version: str, kind: str) -> Path:
    return SCHEMAS / f"{group}_{version}_{kind}.json.gz"


@functools.cache
def _validator(file: Path) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(gzip.decompress(file.read_bytes())))


# Schemas ------------------------------------------------------------------------------------------


def schemas_of(definition: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield file and JSON Schema of each served version of a custom resource."""
    spec = definition["spec"]
    for version in spec["versions"]:
        if not version["served"] or version.get("deprecated"):
            continue
        schema = _strict(version["schema"]["openAPIV3Schema"])
        schema["properties"].update({name: {} for name in _COMMON})
        schema["required"] = sorted({*schema.get("required", ()), *_COMMON})
        yield _file_of(spec["group"], version["name"], spec["names"]["kind"]), schema


def _strict(schema: Mapping[str, Any], *, is_closed: bool = True) -> dict[str, Any]:
    """Return a schema without texts, as JSON Schema has it, in which unknown names are errors.

    Alternatives (``anyOf``) repeat some names of the object around them, so they stay open.
    """
    strict: dict[str, Any] = {}
    for word, value in schema.items():
        if word in ("description", "default", "example", "nullable") or word.startswith("x-"):
            continue
        if word == "properties":
            strict[word] = {
                name: _strict(each, is_closed=is_closed) for name, each in value.items()
            }
        elif word in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
            strict[word] = _strict(value, is_closed=is_closed and word != "not")
        elif word in ("anyOf", "allOf", "oneOf"):
            strict[word] = [_strict(each, is_closed=False) for each in value]
        else:
            strict[word] = value
    if schema.get("x-kubernetes-int-or-string"):
        strict.pop("type", None)
        strict["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    elif "properties" in strict and is_closed and not schema.get(_KEPT_FREE):
        strict.setdefault("additionalProperties", False)
    if schema.get("nullable"):
        return {"anyOf": [strict, {"type": "null"}]}
    return strict


def main() -> None:
    """Write the schemas of definitions of custom resources."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.kubernetes.custom_resources")
    parser.add_argument("definitions", type=Path, nargs="+", metavar="CRD.yaml")
    for path in parser.parse_args().definitions:
        for definition in objects_of(path.read_text("utf-8")):
            for file, schema in schemas_of(definition):
                jsonschema.Draft202012Validator.check_schema(schema)
                text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
                file.write_bytes(gzip.compress(text.encode(), mtime=0))
                print(f"{file.name}  {file.stat().st_size / 1e3:.1f} kB")


if __name__ == "__main__":
    main()
