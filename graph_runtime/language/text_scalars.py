"""One scalar of the text format: a number, a string, a bool or the name of an enum's value."""

from __future__ import annotations

import re

from graph_runtime.errors import did_you_mean
from graph_runtime.language.text_tokens import Kind, Token, Tokens
from protos.pool import EnumType, FieldType

# Numbers of FieldDescriptor.CppType, which are fixed by protobuf's API.
_INT32, _INT64, _UINT32, _UINT64, _DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING = range(1, 10)
_TYPE_BYTES = 12

_RANGES = {
    _INT32: ("a 32-bit integer", -(2**31), 2**31 - 1),
    _INT64: ("a 64-bit integer", -(2**63), 2**63 - 1),
    _UINT32: ("a 32-bit integer that is not negative", 0, 2**32 - 1),
    _UINT64: ("a 64-bit integer that is not negative", 0, 2**64 - 1),
}
_BOOLS = {
    **dict.fromkeys(("true", "t", "True", "1"), True),
    **dict.fromkeys(("false", "f", "False", "0"), False),
}
_INTEGER = re.compile(r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|0(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))\Z")
_DECIMAL = re.compile(
    r"((?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|[0-9]*\.[0-9]*)(?:[eE][+-]?[0-9]+)?)[fF]?\Z"
)
_ESCAPE = re.compile(
    r"\\(?:(?P<oct>[0-7]{1,3})|[xX](?P<hex>[0-9a-fA-F]{1,2})|u(?P<u4>[0-9a-fA-F]{4})"
    r"|U(?P<u8>[0-9a-fA-F]{8})|(?P<one>.))"
)
_ONE = {
    "a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v",
    "\\": b"\\", "'": b"'", '"': b'"', "?": b"?",
}  # fmt: skip


def kind_of(field: FieldType) -> str:
    """Return the type of ``field`` in words: ``a string``, ``a 32-bit integer``..."""
    cpp_type = field.cpp_type
    if cpp_type in _RANGES:
        return _RANGES[cpp_type][0]
    if cpp_type == _STRING:
        return "bytes" if field.type == _TYPE_BYTES else "a string"
    if cpp_type == _ENUM:
        return f"one of {_names(field.enum_type)}"
    return "true or false" if cpp_type == _BOOL else "a number"


def read(tokens: Tokens, field: FieldType) -> bool | int | float | str | bytes:
    """Read the value at the current token and step over it. Raises GraphSyntaxError."""
    cpp_type = field.cpp_type
    if cpp_type == _STRING:
        return _string(tokens, field)
    start = tokens.current
    negative = tokens.skip("-")
    token = tokens.current
    if cpp_type == _BOOL and not negative and token.text in _BOOLS:
        tokens.advance()
        return _BOOLS[token.text]
    if cpp_type == _ENUM:
        return _enum(tokens, field, start, negative)
    if cpp_type in _RANGES:
        return _integer(tokens, field, start, negative)
    if cpp_type in (_FLOAT, _DOUBLE):
        value = _decimal(token)
        if value is not None:
            tokens.advance()
            return -value if negative else value
    raise _wrong(tokens, field, start)


def _wrong(tokens: Tokens, field: FieldType, start: Token, hint: str | None = None) -> Exception:
    found = f"`-{tokens.current.text}`" if tokens.current is not start else str(start)
    if hint is None and start.kind is Kind.STRING and field.cpp_type != _STRING:
        hint = "write it without quotes"
    return tokens.error(f"`{field.name}` is {kind_of(field)}, found {found}", start, hint)


def _integer(tokens: Tokens, field: FieldType, start: Token, negative: bool) -> int:
    _, low, high = _RANGES[field.cpp_type]
    value = _whole(tokens.current)
    if value is None:
        raise _wrong(tokens, field, start)
    value = -value if negative else value
    if not low <= value <= high:
        raise _wrong(tokens, field, start, f"the range is {low} to {high}")
    tokens.advance()
    return value


def _whole(token: Token) -> int | None:
    match = _INTEGER.match(token.text) if token.kind is Kind.NUMBER else None
    if match is None or len(token.text) > 64:
        return None
    if match["hex"]:
        return int(match["hex"], 16)
    return int(match["oct"], 8) if match["oct"] else int(match["dec"])


def _decimal(token: Token) -> float | None:
    if token.kind is Kind.WORD:
        word = token.text.lower()
        if word in ("inf", "infinity"):
            return float("inf")
        return float("nan") if word == "nan" else None
    match = _DECIMAL.match(token.text) if token.kind is Kind.NUMBER else None
    return float(match[1]) if match is not None else None


def _enum(tokens: Tokens, field: FieldType, start: Token, negative: bool) -> int:
    enum = field.enum_type
    token = tokens.current
    if token.kind is Kind.WORD and not negative:
        value = enum.values_by_name.get(token.text)
        if value is not None:
            tokens.advance()
            return int(value.number)
        near = did_you_mean(token.text, enum.values_by_name).strip()
        raise _wrong(tokens, field, start, near or None)
    number = _whole(token)
    if number is None:
        raise _wrong(tokens, field, start)
    number = -number if negative else number
    known = number in enum.values_by_number
    if not known and (enum.is_closed or not -(2**31) <= number < 2**31):
        raise _wrong(tokens, field, start)
    tokens.advance()
    return number


def _names(enum: EnumType) -> str:
    return ", ".join(f"{value.name} ({value.number})" for value in enum.values)


def _string(tokens: Tokens, field: FieldType) -> str | bytes:
    start = tokens.current
    if start.kind is not Kind.STRING:
        hint = "put it in quotes" if start.kind in (Kind.WORD, Kind.NUMBER) else None
        raise _wrong(tokens, field, start, hint)
    value = b""
    while tokens.current.kind is Kind.STRING:  # literals that follow one another are one string
        token = tokens.advance()
        value += _unescaped(tokens, token)
    if field.type == _TYPE_BYTES:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        message = f"`{field.name}` is text, and these bytes are not UTF-8"
        raise tokens.error(message, start) from None


def _unescaped(tokens: Tokens, token: Token) -> bytes:
    literal = token.text[1:-1]
    if "\\" not in literal:
        return literal.encode(errors="surrogatepass")
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(literal):
        parts.append(literal[end : match.start()].encode(errors="surrogatepass"))
        value = _escaped(match)
        if value is None:
            place = Token(Kind.STRING, match[0], token.offset + 1 + match.start())
            raise tokens.error(f"a string cannot hold the escape `{match[0]}`", place)
        parts.append(value)
        end = match.end()
    parts.append(literal[end:].encode(errors="surrogatepass"))
    return b"".join(parts)


def _escaped(match: re.Match[str]) -> bytes | None:
    """Return the bytes of one escape sequence; None for one that the text format does not have."""
    if match["oct"]:
        number = int(match["oct"], 8)
        return bytes([number]) if number < 256 else None
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    digits = match["u4"] or match["u8"]
    if digits:
        number = int(digits, 16)
        return chr(number).encode() if number < 0x110000 and not 0xD800 <= number < 0xE000 else None
    return _ONE.get(match["one"])
