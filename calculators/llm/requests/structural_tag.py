"""Structural tags of clients: nested formats, whose shape is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.llm.grammars.formats import Format

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
    return _Reader().read(value, path, 0)


class _Reader:
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


_READERS: Final[dict[str, Callable[[_Reader, Mapping[str, Any], str, int], Format]]] = {
    "json_schema": _Reader.schema,
    "regex": _Reader.regex,
    "grammar": _Reader.grammar,
    "const_string": _Reader.const,
    "any_text": _Reader.any_text,
    "sequence": _Reader.elements,
    "or": _Reader.elements,
    "tag": _Reader.tag,
    "tags_with_separator": _Reader.tags,
    "triggered_tags": _Reader.triggered,
}
FORMATS: Final = frozenset(_READERS)
