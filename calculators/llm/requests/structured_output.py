"""Structured output: the form that an answer must have, and how a request asks for it.

OpenAI's ``response_format`` and ``text.format``, the members of vLLM for the same purpose, and
structural tags, whose formats are nested, all become a `StructuredOutput`. `request_grammar` joins
it with the calls of tools and with reasoning to the form that the grammar process compiles.

Only sizes and shapes are checked here, on the event loop. Schemas, expressions and grammars are
read in the grammar process, because the client determines how long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    Members,
    Value,
    check_object,
    handle_unknown,
    honoured,
    table,
)
from calculators.kit.requests.schema import array, flag, one_of, record, ref, request, string
from calculators.language.generation_request import StructuredOutput, Tools
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format, Tool
from calculators.llm.grammars.grammar import AnswerForm
from calculators.llm.parsers.families import AnswerFamily, CallSyntax
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.pattern import head
from calculators.llm.parsers.registry import ReasoningForm, ToolForm

_encode = msgspec.json.Encoder().encode


def check_size(value: object, most: int, path: str) -> None:
    """Refuse a value whose JSON is longer than ``most`` bytes, or cannot be written.

    Takes time in proportion to the value, 1 to 2 ms for the longest body that the server accepts.

    Raises:
        RequestError: the value is too long or has no JSON; ``path`` is its param.
    """
    size = len(json_text(value, path))
    if size > most:
        raise fields.invalid(path, f"its JSON has {size} bytes, more than the maximum {most}")


def json_text(value: object, path: str) -> bytes:
    """Return the JSON of a value, in UTF-8.

    Raises:
        RequestError: it is nested too deeply, or has half of a surrogate pair.
    """
    try:
        return _encode(value)
    except RecursionError:
        raise fields.invalid(path, "it is nested too deeply") from None
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError, TypeError):
        raise fields.invalid(path, "it is not a JSON value of Unicode text") from None


def value_of(text: str, path: str) -> object:
    """Return the value of a JSON text, read as strictly as a request's body.

    Raises:
        RequestError: it is not JSON (NaN and lone surrogates are not), or nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise fields.invalid(path, "the text is nested too deeply") from None
    except (ValueError, OverflowError):
        raise fields.invalid(path, "the text is not JSON") from None


MAX_DEPTH: Final = 16
MAX_PARTS: Final = 256
#: The most characters of a text in a tag.
MAX_TEXT: Final = 4096


def read_format(value: object, path: str) -> Format:
    """Return a client's format as one of `calculators.llm.grammars.formats`.

    Source: xgrammar's documentation of structural tags.

    Raises:
        RequestError: with the path of the wrong part.
    """
    return _TagReader().read(value, path, 0)


class _TagReader:
    """Reads one format, with a limit on its parts."""

    def __init__(self) -> None:
        self._parts = 0

    def read(self, value: object, path: str, depth: int) -> Format:
        if not isinstance(value, dict):
            raise fields.wrong_type(path, "an object", value)
        self._parts += 1
        if depth > MAX_DEPTH or self._parts > MAX_PARTS:
            raise fields.invalid(
                path, f"formats are nested deeper than {MAX_DEPTH}, or more than {MAX_PARTS}"
            )
        kind = fields.string(value, "type", f"{path}.type")
        read = _READERS.get(kind or "")
        if read is None:
            known = ", ".join(f'"{name}"' for name in _READERS)
            raise fields.invalid(f"{path}.type", f"{fields.describe(kind)} is none of {known}")
        return {"type": kind, **read(self, value, path, depth + 1)}

    def schema(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        where = f"{path}.json_schema"
        schema = value.get("json_schema")
        if not isinstance(schema, dict | bool):
            raise fields.wrong_type(where, "a JSON schema (an object)", schema)
        if isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
            # OpenAI's object around the schema.
            schema, where = schema["schema"], f"{where}.schema"
        return {"json_schema": schema, "path": where}

    def regex(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        return {"pattern": _text(value, "pattern", path), "path": f"{path}.pattern"}

    def grammar(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        text = _text(value, "grammar", path, limit=64 * 1024)
        return {"grammar": text, "path": f"{path}.grammar"}

    def const(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        text = _text(value, "value", path)
        if not text:
            raise fields.invalid(f"{path}.value", "the text is empty")
        return {"value": text}

    def any_text(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        return _excludes(value, path)

    def elements(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        return {"elements": self._several(value, "elements", path, depth)}

    def tag(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        end = value.get("end")
        ends = end if isinstance(end, list) else [end]
        if not ends or not all(isinstance(each, str) and len(each) <= MAX_TEXT for each in ends):
            raise fields.wrong_type(f"{path}.end", "a string, or an array of strings", end)
        return {
            "begin": _text(value, "begin", path),
            "content": self.read(value.get("content"), f"{path}.content", depth),
            "end": end,
        }

    def tags(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        return {
            "tags": self._several(value, "tags", path, depth, only="tag"),
            "separator": _text(value, "separator", path),
            **_flags(value, path),
        }

    def triggered(self, value: Mapping[str, Any], path: str, depth: int) -> Format:
        triggers, excludes = _texts(value, "triggers", path), _excludes(value, path)
        for text in excludes.get("excludes", ()):
            if any(text.startswith(each) or each.startswith(text) for each in triggers):
                raise fields.invalid(
                    f"{path}.excludes", f"{fields.describe(text)} excludes one of the triggers"
                )
        return {
            "triggers": triggers,
            "tags": self._several(value, "tags", path, depth, only="tag"),
            **excludes,
            **_flags(value, path),
        }

    def _several(
        self, value: Mapping[str, Any], name: str, path: str, depth: int, only: str | None = None
    ) -> list[Format]:
        items = fields.array(value, name, f"{path}.{name}")
        if not items:
            raise fields.missing(f"{path}.{name}", "an array of formats")
        made = [self.read(each, f"{path}.{name}[{i}]", depth) for i, each in enumerate(items)]
        for i, each in enumerate(made):
            if only is not None and each["type"] != only:
                raise fields.invalid(f"{path}.{name}[{i}].type", f'expected "{only}"')
        return made


def _text(value: Mapping[str, Any], name: str, path: str, limit: int = MAX_TEXT) -> str:
    text = fields.string(value, name, f"{path}.{name}")
    if text is None:
        raise fields.missing(f"{path}.{name}", "a string")
    if len(text) > limit:
        raise fields.invalid(
            f"{path}.{name}", f"its {len(text)} characters are more than the maximum {limit}"
        )
    return text


def _texts(value: Mapping[str, Any], name: str, path: str) -> list[str]:
    texts = fields.array(value, name, f"{path}.{name}")
    if not texts or not all(isinstance(each, str) and 0 < len(each) <= MAX_TEXT for each in texts):
        raise fields.wrong_type(f"{path}.{name}", "an array of strings", value.get(name))
    # The engine takes no text that begins with another one. It would not be reached.
    return [
        text
        for text in dict.fromkeys(texts)
        if not any(text != other and text.startswith(other) for other in texts)
    ]


def _excludes(value: Mapping[str, Any], path: str) -> Format:
    return {} if value.get("excludes") is None else {"excludes": _texts(value, "excludes", path)}


def _flags(value: Mapping[str, Any], path: str) -> Format:
    return {
        name: fields.boolean(value, name, f"{path}.{name}") is True
        for name in ("at_least_one", "stop_after_first")
    }


_READERS: Final[dict[str, Callable[[_TagReader, Mapping[str, Any], str, int], Format]]] = {
    "json_schema": _TagReader.schema,
    "regex": _TagReader.regex,
    "grammar": _TagReader.grammar,
    "const_string": _TagReader.const,
    "any_text": _TagReader.any_text,
    "sequence": _TagReader.elements,
    "or": _TagReader.elements,
    "tag": _TagReader.tag,
    "tags_with_separator": _TagReader.tags,
    "triggered_tags": _TagReader.triggered,
}
FORMATS: Final = frozenset(_READERS)


def request_grammar(
    structured: StructuredOutput | None,
    tools: Tools,
    *,
    tool_parser: ToolForm | None,
    reasoning_parser: ReasoningForm | None,
    guides_tools: bool,
    parallel: bool,
    prompt: str = "",
    call_count: int = 0,
) -> AnswerForm | None:
    """Return the form of the answer; None if any text is allowed.

    Reasoning may precede the form. If tools may be called, the answer is calls or ``structured``.

    A model that is free to call tools is guided where a tool has a grammar of its text.

    Args:
        guides_tools: calls must follow the tools' schemas also when the model is free to call: the
            option ``enable_tool_guided_generation``.
        parallel: one answer may call several tools.
        prompt: the text before the answer, which may have begun the reasoning.
        call_count: the calls in the conversation so far, where the form counts them.

    Raises:
        RequestError: a tool must be called, and the form of this model's calls is unknown.
    """
    must_call = tools.choice in ("required", "named")
    follows_schemas = guides_tools or structured is not None
    is_guided = must_call or (tools.choice == "auto" and (follows_schemas or bool(tools.grammars)))
    form = tool_parser.calls if tool_parser is not None and is_guided else None
    if must_call and form is None:
        raise fields.invalid(
            "tool_choice", 'this model cannot be made to call tools; only "auto" and "none" are'
        )
    answers = [] if structured is None or must_call else _answers(structured, reasoning_parser)
    if form is None:
        if structured is None:
            return None
        return _form(_after_reasoning(answers, answers, reasoning_parser, prompt))
    is_free = not must_call and structured is None
    offered = _tools(tools)
    if is_free and not follows_schemas:
        offered = [tool if tool.text else replace(tool, schema=None) for tool in offered]
    calls = partial(
        formats.calls,
        tools=offered,
        only_one=not parallel or tools.choice == "named",
        is_free=is_free,
        # Where the number is a part of the call's id, it is one of the conversation.
        number=0 if "{n}" not in form.call else call_count if form.header_is_id else 1,
    )
    called = calls(form)
    if is_free:
        # Any text may precede the calls, and so may reasoning.
        return _form(called)
    thought = [_led(form.lead_in, called), *answers]
    written = _led(_unwritten(form.lead_in, prompt), calls(_begun(form, prompt)))
    return _form(_after_reasoning(thought, [written, *answers], reasoning_parser, prompt))


def _form(part: Format) -> AnswerForm:
    # The parts that clients wrote have been checked for size.
    return AnswerForm(json_text(part, "tools").decode())


def _tools(tools: Tools) -> list[Tool]:
    strict = tools.strict
    return [
        Tool(
            name,
            schema or {"type": "object", "properties": {}},
            path,
            name in strict,
            tools.grammars.get(name),
        )
        for (name, schema), path in zip(tools.schemas.items(), tools.schema_paths, strict=True)
    ]


def _answers(structured: StructuredOutput, parser: ReasoningForm | None) -> list[Format]:
    """Return the ways to write a structured answer: between the marks of answers, or without."""
    given = structured.format
    match parser:
        case AnswerFamily():
            marked = [formats.tag(pair[0], given, pair[1]) for pair in parser.answer if all(pair)]
            return [given, *marked]
        case type() if parser.answer_start:
            return [_led(parser.answer_start, given)]
        case _:
            return [given]


def _led(text: str, rest: Format) -> Format:
    return formats.sequence(formats.const(text), rest) if text else rest


def _begun(form: CallSyntax, prompt: str) -> CallSyntax:
    """Return the form of calls without the mark at their beginning, if the prompt ends with it."""
    written = prompt.rstrip()
    section = form.section[0].strip()
    if section:
        is_begun = written.endswith(section) and not form.section_each
        return replace(form, section=("", form.section[1])) if is_begun else form
    mark = head(form.call)
    if not mark or not written.endswith(mark):
        return form
    return replace(form, call=form.call.lstrip()[len(mark) :], separator=form.separator + mark)


def _unwritten(lead_in: str, prompt: str) -> str:
    """Return the part of a text before calls that the prompt does not end with."""
    tail = prompt.rstrip()
    for length in range(len(lead_in), 0, -1):
        if tail.endswith(lead_in[:length]):
            return lead_in[length:]
    return lead_in


def _after_reasoning(
    thought: Sequence[Format], direct: Sequence[Format], parser: ReasoningForm | None, prompt: str
) -> Format:
    """Return the format of one of some formats after reasoning, or ``direct`` ones without it."""
    parsers = OutputParsers(None, parser)
    begins, ends = parsers.reasoning_marks
    if not begins or not ends:
        return formats.one_of(*direct)
    written = parser.turn if isinstance(parser, type) else None
    after = (
        formats.turn() if written is None else formats.const(written), formats.one_of(*thought)
    )  # fmt: skip
    thoughts = [
        formats.tag(begin, formats.any_text(), *ends)
        for begin in ([""] if parsers.reasoning_is_open(prompt) else begins)
    ]
    reasoned = formats.sequence(formats.one_of(*thoughts), *after)
    if parsers.reasoning_is_open(prompt):
        return reasoned
    return formats.one_of(reasoned, *direct)


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
    if settings.num_beams > 1:
        raise fields.combined("best_of", output_param)
    if settings.ignore_eos:
        raise fields.combined("ignore_eos", output_param)
    if settings.min_new_tokens:
        raise fields.combined("min_tokens", output_param)


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
    # Clients send the form of either API to both.
    is_nested = isinstance(value.get("json_schema"), dict)
    is_flat = not is_nested and (is_flat or value.get("schema") is not None)
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
        if inner is None:
            continue
        if name == "json_object":
            if not fields.boolean(value, name, where):
                continue
            found.append(StructuredOutput(formats.json_schema({"type": "object"}, where), where))
        elif name in _KINDS:
            found.append(_KINDS[name](inner, where))
        elif name not in _IGNORED:
            handle_unknown(name, (*_KINDS, "json_object", *_IGNORED), path=path)
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
    # SGLang's names.
    honoured("json_schema", Value(_SCHEMA_FORM, _guided_json), "As `guided_json`."),
    honoured("regex", Value(REGEX_FORM, _regex), "As `guided_regex`."),
    honoured("ebnf", Value(GRAMMAR_FORM, _grammar), "As `guided_grammar`."),
    honoured("structured_outputs", Value(_STRUCTURED_OUTPUTS_FORM, _structured_outputs)),
)
