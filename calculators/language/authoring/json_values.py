"""Values of JSON and texts as values of Python's types, and back, for `endpoint`.

msgspec converts and describes dataclasses, TypedDicts, its own structs, enums, dates and what is
made of these. A model of pydantic does both itself, found by its methods: pydantic is not imported.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, is_typeddict

import msgspec

from calculators.kit.requests.http_payload import RequestError
from calculators.language.mistakes import named
from graphrt_base.annotations import resolved


def missing(name: str) -> RequestError:
    """Return the error for a request without a member of this name."""
    return RequestError(f"{name} is missing", param=name)


_PLACE: Final = re.compile(r" - at `(.*)`$", re.DOTALL)
_REQUIRED_FIELD: Final = re.compile(r"Object missing required field `(.*)`")


def converted(value: Any, hint: Any, name: str = "", *, are_texts: bool = False) -> Any:
    """Return a value as one of a type.

    ``name``: of the parameter; ``are_texts``: numbers may be written as texts.

    Raises:
        RequestError: it does not fit.
    """
    if resolved(hint) is Any:
        return value
    try:
        made = msgspec.convert(value, hint, strict=not are_texts, dec_hook=_modelled)
        return made if are_texts else _filled(made)
    except (msgspec.ValidationError, RecursionError) as error:
        text = str(error)
    place = ""
    if found := _PLACE.search(text):
        text = text[: found.start()]
        place = found[1].removeprefix("$")
    if inner := _OF_MODEL.match(text):
        place, text = f"{place}.{inner[1]}", inner[2]
    where = f"{name}{place}".strip(".")
    if lacking := _REQUIRED_FIELD.fullmatch(text):
        raise missing(".".join(each for each in (where, lacking[1]) if each))
    if are_texts:
        text = text.partition(", got ")[0]
    if not place and text.startswith("Invalid enum value") and (known := _choices(hint)):
        text = f"{text[len('Invalid enum value ') :]} is none of {', '.join(map(repr, known))}"
    text = f"{text[:1].lower()}{text[1:]}".replace("`", "")
    raise RequestError(f"{where or 'the body'}: {text}", param=where or None)


def _choices(hint: Any) -> list[Any]:
    """Return the values of an enum's or a literal's type; [] for any other."""
    kind = resolved(hint)
    if get_origin(kind) in (Union, types.UnionType):
        return [value for each in get_args(kind) for value in _choices(each)]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [each.value for each in kind] if isinstance(kind, type(Enum)) else []


_OF_MODEL: Final = re.compile(r"\[\[(.*?)\]\] (.*)", re.DOTALL)


def _filled(value: Any) -> Any:
    """Return a converted value with all members of its dataclasses.

    msgspec leaves a default to the class, and writes only what the object itself has.
    """
    if isinstance(value, list | tuple | set):
        for each in value:
            _filled(each)
    elif isinstance(value, dict):
        for each in value.values():
            _filled(each)
    elif dataclasses.is_dataclass(value) and hasattr(value, "__dict__"):
        own: dict[str, Any] = vars(value)  # so that frozen ones are filled, too
        for field in dataclasses.fields(value):
            _filled(own.setdefault(field.name, getattr(value, field.name)))
    return value


def _modelled(kind: Any, value: Any) -> Any:
    """Return a value as a model of pydantic, for msgspec."""
    if not hasattr(kind, "model_validate"):
        raise TypeError(f"{kind} is not a type that JSON has values of")
    try:
        return kind.model_validate(value)
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        first = errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"[[{place}]] {first['msg']}") from None


def plain(value: Any) -> Any:
    """Return a value of another library as plain ones, for msgspec.

    Raises:
        TypeError: it has no plain form.
    """
    if hasattr(value, "model_dump"):  # pydantic's
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # NumPy's
        return value.tolist()
    raise TypeError(f"{named(value)} in it")


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type at first sight: what is inside is not looked at."""
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if is_typeddict(kind):
        return isinstance(value, dict)
    kind = origin or kind
    if kind is float:
        return isinstance(value, int | float)
    if not isinstance(kind, type):
        return True
    return isinstance(value, kind)


class JsonSchemas:
    """The JSON schemas of types, for the OpenAPI document.

    Attributes:
        named: the schemas of classes, by names that begin with the function's.
    """

    def __init__(self, function: str, *, is_strict: bool = False) -> None:
        """``is_strict``: a type that JSON has no values for is an error, not any value."""
        self._prefix = f"{function}."
        self._is_strict = is_strict
        self.named: dict[str, Any] = {}

    def of(self, hint: Any, default: Any = inspect.Parameter.empty) -> dict[str, Any]:
        """Return the schema of a type, with the default of its parameter.

        Raises:
            TypeError: JSON has no values for it.
        """
        template = f"#/components/schemas/{self._prefix}{{name}}"

        def of_model(kind: Any) -> dict[str, Any]:
            if not hasattr(kind, "model_json_schema"):
                raise TypeError(f"{kind} has no JSON schema")
            schema: dict[str, Any] = kind.model_json_schema(
                ref_template=template.replace("{name}", "{model}")
            )
            self._add(schema.pop("$defs", {}))
            return schema

        try:
            (schema,), named_ones = msgspec.json.schema_components(
                [hint], schema_hook=of_model, ref_template=template
            )
        except TypeError:
            if self._is_strict:
                raise
            return {}
        self._add(named_ones)
        if default is inspect.Parameter.empty or default is None:
            return schema
        return {**schema, "default": msgspec.to_builtins(default, enc_hook=plain)}

    def _add(self, named_ones: Mapping[str, Any]) -> None:
        self.named.update({f"{self._prefix}{name}": each for name, each in named_ones.items()})


def members_of(hint: Any) -> frozenset[str]:
    """Return the members of objects of a type; none if it has no fixed ones, as a dictionary."""
    schemas = JsonSchemas("")
    schema = schemas.of(hint)
    if "$ref" in schema:
        schema = schemas.named[schema["$ref"].rpartition("/")[2]]
    is_open = bool(schema.get("additionalProperties"))
    return frozenset() if is_open else frozenset(schema.get("properties", ()))
