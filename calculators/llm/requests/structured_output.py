"""Structured output: ``response_format``, and the members of vLLM for the same purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, check_object, found_unknown, honoured, table
from calculators.kit.requests.readers import Value
from calculators.kit.requests.schema import array, flag, one_of, record, ref, request, string
from calculators.language.structured_output import StructuredOutput
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.grammars import formats
from calculators.llm.requests.client_json import check_size, value_of
from calculators.llm.requests.structural_tag import FORMATS, read_format

#: Bytes of JSON of a schema, of choices or of a structural tag; characters of a grammar. Real ones
#: have a few thousand.
MAX_SIZE: Final = 64 * 1024
MAX_REGEX: Final = 4096
MAX_CHOICES: Final = 1000


def read_structured_output(body: Mapping[str, Any]) -> StructuredOutput | None:
    """Return the form of the one of `STRUCTURED_MEMBERS` in a checked body; None: any text.

    Sizes and shapes are checked here, on the event loop. Schemas, expressions and grammars are read
    in the grammar process, because the client determines how long that takes.

    Source: OpenAI's API reference; vLLM's documentation of structured outputs; OpenVINO Model
    Server, which also takes formats of structural tags as ``response_format``.

    Raises:
        RequestError: the body has two of them.
    """
    return only_one(*(body.get(name) for name in STRUCTURED_MEMBERS))


def read_text_format(value: object, path: str) -> StructuredOutput | None:
    """Read ``text.format`` of OpenAI's responses API, where the schema is not nested.

    Raises:
        RequestError: the format is wrong.
    """
    return _response_format(value, path, is_flat=True)


def refuse_settings(settings: GenerationSettings, output_param: str) -> None:
    """Refuse settings with which the engine would not follow a grammar.

    ``output_param``: the member that asks for the grammar, for the error.

    Raises:
        RequestError: with the name of the setting.
    """
    beside = f"it cannot be combined with {output_param}"
    if settings.num_beams > 1:
        raise fields.invalid("best_of", beside)
    if settings.ignore_eos:
        raise fields.invalid("ignore_eos", beside)
    if settings.min_new_tokens:
        raise fields.invalid("min_tokens", beside)


def only_one(*outputs: StructuredOutput | None) -> StructuredOutput | None:
    """Return the one that is not None, if any.

    Raises:
        RequestError: two are not None.
    """
    found = [output for output in outputs if output is not None]
    if len(found) > 1:
        raise fields.invalid(
            found[1].param, f"structured output is already asked for by {found[0].param}"
        )
    return found[0] if found else None


#: The members of the object around a schema.
_NESTED_SCHEMA: Final = ("name", "description", "schema", "strict")
_FLAT_SCHEMA: Final = ("type", *_NESTED_SCHEMA)
#: The members of a format by its type; other types are structural tags.
_RESPONSE_FORMATS: Final[Mapping[str | None, tuple[str, ...]]] = {
    "text": ("type",),
    "json_object": ("type", "schema"),
    "json_schema": ("type", "json_schema"),
}


def _response_format(value: object, path: str, *, is_flat: bool = False) -> StructuredOutput | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    kind = fields.string(value, "type", f"{path}.type")
    members = _FLAT_SCHEMA if is_flat and kind == "json_schema" else _RESPONSE_FORMATS.get(kind)
    if members is not None:
        check_object(value, path, members)
    match kind:
        case None:
            raise fields.missing(f"{path}.type", '"text", "json_object" or "json_schema"')
        case "text":
            return None
        case "json_object":
            return _json_object(value, path)
        case "json_schema":
            return _openai_schema(value, path, is_flat=is_flat)
        case "regex":
            return _regex(value.get("pattern"), f"{path}.pattern")
        case "grammar":
            return _grammar(value.get("grammar"), f"{path}.grammar")
        case "structural_tag":
            return _structural_tag(value, path)
        case _ if kind in FORMATS:
            check_size(value, MAX_SIZE, path)
            return StructuredOutput(read_format(value, path), path)
        case _:
            raise fields.invalid(
                f"{path}.type",
                f'{fields.describe(kind)} is none of "text", "json_object", "json_schema"',
            )


def _json_object(value: Mapping[str, Any], path: str) -> StructuredOutput:
    """Read ``{"type": "json_object"}``, with a schema as llama.cpp's clients and others send it."""
    if value.get("schema") is None:
        return StructuredOutput(formats.json_schema({"type": "object"}, path), path)
    return _schema(value["schema"], f"{path}.schema")


def _openai_schema(value: Mapping[str, Any], path: str, *, is_flat: bool) -> StructuredOutput:
    """Read ``{"json_schema": {"name", "schema", "strict"}}``; the schema may replace the object."""
    if is_flat:
        inner: Mapping[str, Any] = value
    else:
        given = fields.json_object(value, "json_schema", f"{path}.json_schema")
        if given is None:
            raise fields.missing(f"{path}.json_schema", 'an object with the "schema"')
        inner, path = given, f"{path}.json_schema"
    fields.string(inner, "name", f"{path}.name")
    is_strict = fields.boolean(inner, "strict", f"{path}.strict") is True
    if "schema" in inner:
        check_object(inner, path, _FLAT_SCHEMA if is_flat else _NESTED_SCHEMA)
        return _schema(inner["schema"], f"{path}.schema", is_strict=is_strict)
    if is_flat or not any(name in inner for name in SCHEMA_WORDS):
        raise fields.missing(f"{path}.schema", "a JSON schema (an object)")
    schema = {k: v for k, v in inner.items() if k not in ("name", "strict")}
    return _schema(schema, path, is_strict=is_strict)


#: Keywords by which a schema is recognized that stands in place of the object around it.
SCHEMA_WORDS: Final = ("type", "properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const")


def _schema(value: object, path: str, *, is_strict: bool = False) -> StructuredOutput:
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "a JSON schema (an object)", value)
    check_size(value, MAX_SIZE, path)
    return StructuredOutput(formats.json_schema(value, path, is_strict=is_strict), path)


def _check_length(size: int, most: int, path: str) -> None:
    if size > most:
        raise fields.invalid(path, f"its {size} characters are more than the maximum {most}")


def _guided_json(value: object, path: str) -> StructuredOutput:
    return _schema(_from_text(value, path) if isinstance(value, str) else value, path)


def _from_text(text: str, path: str) -> object:
    _check_length(len(text), MAX_SIZE, path)
    return value_of(text, path)


def _regex(value: object, path: str) -> StructuredOutput:
    if not isinstance(value, str):
        raise fields.wrong_type(path, "a regular expression", value)
    _check_length(len(value), MAX_REGEX, path)
    return StructuredOutput(formats.regex(value, path), path)


def _choice(value: object, path: str) -> StructuredOutput:
    if not isinstance(value, list) or not value:
        raise fields.wrong_type(path, "an array of strings", value)
    if len(value) > MAX_CHOICES:
        raise fields.invalid(path, f"{len(value)} choices are more than the maximum {MAX_CHOICES}")
    for i, each in enumerate(value):
        if not isinstance(each, str):
            raise fields.wrong_type(f"{path}[{i}]", "a string", each)
    check_size(value, MAX_SIZE, path)
    return StructuredOutput(formats.choice(value, path), path)


def _grammar(value: object, path: str) -> StructuredOutput:
    if not isinstance(value, str):
        raise fields.wrong_type(path, "a grammar (EBNF)", value)
    _check_length(len(value), MAX_SIZE, path)
    return StructuredOutput(formats.ebnf(value, path), path)


def _structural_tag(value: object, path: str) -> StructuredOutput:
    if isinstance(value, str):
        value = _from_text(value, path)
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    check_size(value, MAX_SIZE, path)
    if "format" in value:
        return StructuredOutput(read_format(value["format"], f"{path}.format"), path)
    raise fields.missing(f"{path}.format", "the format of the answer")


def _structured_outputs(value: object, path: str) -> StructuredOutput | None:
    """Read vLLM's object with one of several members."""
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    found: list[StructuredOutput] = []
    for name, inner in value.items():
        where = f"{path}.{name[:40]}"
        if inner is None or inner is False:
            continue
        if name == "json_object":
            fields.boolean(value, name, where)
            found.append(StructuredOutput(formats.json_schema({"type": "object"}, where), where))
        elif name in _KINDS:
            found.append(_KINDS[name](inner, where))
        elif name not in _IGNORED:
            found_unknown(name, (*_KINDS, "json_object", *_IGNORED), path=path)
    return only_one(*found)


_KINDS: Final[dict[str, Callable[[object, str], StructuredOutput]]] = {
    "json": _guided_json,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "structural_tag": _structural_tag,
}
#: Hints about the method. The answer follows its schema in any case.
_IGNORED: Final = frozenset({"disable_fallback", "disable_additional_properties"})
REGEX_FORM: Final = string("A regular expression for the whole answer.", maxLength=MAX_REGEX)
GRAMMAR_FORM: Final = string("A grammar (EBNF).", maxLength=MAX_SIZE)
_CHOICE_FORM: Final = array(
    string(), "The answer is one of these.", minItems=1, maxItems=MAX_CHOICES
)
_AS_TEXT: Final = string(maxLength=MAX_SIZE, contentMediaType="application/json")
_SCHEMA_FORM: Final = one_of(ref("JsonSchema"), _AS_TEXT, about="A JSON schema.")
_TAG_FORM: Final = one_of(
    record({"format": ref("InnerFormat")}, required=("format",)),
    _AS_TEXT,
    about="A structural tag.",
)
_STRUCTURED_OUTPUTS_FORM: Final = request(
    {
        "json": _SCHEMA_FORM,
        "regex": REGEX_FORM,
        "choice": _CHOICE_FORM,
        "grammar": GRAMMAR_FORM,
        "structural_tag": _TAG_FORM,
        "json_object": flag(),
        **{name: {} for name in sorted(_IGNORED)},
    },
    "vLLM's object: one of its members.",
    additionalProperties=False,
)

#: At most one of them may ask for something.
STRUCTURED_MEMBERS: Final[Members] = table(
    honoured("response_format", Value(ref("ResponseFormat"), _response_format)),
    honoured("guided_json", Value(_SCHEMA_FORM, _guided_json)),
    honoured("guided_regex", Value(REGEX_FORM, _regex)),
    honoured("guided_choice", Value(_CHOICE_FORM, _choice)),
    honoured("guided_grammar", Value(GRAMMAR_FORM, _grammar)),
    honoured("structural_tag", Value(_TAG_FORM, _structural_tag)),
    honoured("structured_outputs", Value(_STRUCTURED_OUTPUTS_FORM, _structured_outputs)),
)
