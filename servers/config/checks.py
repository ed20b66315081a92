"""Building blocks of a JSON schema: each check takes one value and reports every error in it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any

from servers.config.json_text import member

#: Takes the path of an error, the message, and a hint or None.
Report = Callable[[str, str, str | None], None]

#: Takes a value and its path.
Check = Callable[[Any, str, Report], None]


def shown(value: Any) -> str:
    """Return a value for messages as JSON, at most 60 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def of_type(expected: str, *types: type) -> Check:
    """Accept values of these types; ``expected`` names them in the message."""

    def check(value: Any, path: str, report: Report) -> None:
        # bool is an int in Python, but not in JSON.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            report(path, f"{expected} is needed, not {shown(value)}", None)

    return check


text = of_type("a string", str)
boolean = of_type("true or false", bool)
anything: Check = lambda value, path, report: None  # noqa: E731


def nonempty_text(value: Any, path: str, report: Report) -> None:
    """Accept strings that are not empty."""
    if not isinstance(value, str) or not value:
        report(path, f"a string that is not empty is needed, not {shown(value)}", None)


def integer(at_least: int, at_most: int | None = None) -> Check:
    """Accept whole numbers within these bounds, both included."""
    span = f"from {at_least} on" if at_most is None else f"from {at_least} to {at_most}"

    def check(value: Any, path: str, report: Report) -> None:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < at_least or (at_most is not None and value > at_most):
            report(path, f"a whole number {span} is needed, not {shown(value)}", None)

    return check


def number(at_least: float) -> Check:
    """Accept numbers, whole or not, up to the seconds of a year."""
    at_most = 366 * 24 * 3600

    def check(value: Any, path: str, report: Report) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not at_least <= value <= at_most:
            report(
                path, f"a number from {at_least:g} to {at_most} is needed, not {shown(value)}", None
            )

    return check


def word(*words: str) -> Check:
    """Accept one of these strings."""
    choice = " or ".join(json.dumps(each) for each in words)

    def check(value: Any, path: str, report: Report) -> None:
        if value not in words:
            near = difflib.get_close_matches(str(value)[:100].lower(), words, n=1)
            hint = f'did you mean "{near[0]}"?' if near else None
            report(path, f"{choice} is needed, not {shown(value)}", hint)

    return check


def list_of(item: Check) -> Check:
    """Accept arrays whose items pass ``item``."""

    def check(value: Any, path: str, report: Report) -> None:
        if not isinstance(value, list):
            report(path, f"a list is needed, not {shown(value)}", None)
            return
        for index, each in enumerate(value):
            item(each, f"{path}[{index}]", report)

    return check


def at_least_one(item: Check) -> Check:
    """Accept arrays of one item or more."""
    check_list = list_of(item)

    def check(value: Any, path: str, report: Report) -> None:
        check_list(value, path, report)
        if value == []:
            report(path, "the list is empty", None)

    return check


def reads(parse: Callable[[Any], object], expected: str, *types: type) -> Check:
    """Accept values of these types that ``parse`` accepts, and "", which stands for no value.

    ``parse`` raises `ValueError` whose text says what would be right.
    """
    check_type = of_type(expected, *types)

    def check(value: Any, path: str, report: Report) -> None:
        if not isinstance(value, types) or isinstance(value, bool):
            check_type(value, path, report)
        elif value != "":
            try:
                parse(value)
            except ValueError as error:
                report(path, f"{shown(value)} is not understood: {error}", None)

    return check


def map_of(item: Check, *, required: tuple[str, ...] = ()) -> Check:
    """Accept objects with any keys besides the required ones."""

    def check(value: Any, path: str, report: Report) -> None:
        if not isinstance(value, dict):
            report(path, f"an object is needed, not {shown(value)}", None)
            return
        for key, each in value.items():
            item(each, member(path, key), report)
        _check_required(value, required, path, report)

    return check


def either(first: Check, kind: type, second: Check) -> Check:
    """Apply ``first`` to values of this kind, ``second`` to all others."""

    def check(value: Any, path: str, report: Report) -> None:
        (first if isinstance(value, kind) else second)(value, path, report)

    return check


def object_of(fields: Mapping[str, Check], *, required: tuple[str, ...] = ()) -> Check:
    """Accept objects with these keys and no others."""

    def check(value: Any, path: str, report: Report) -> None:
        if not isinstance(value, dict):
            report(path, f"an object is needed, not {shown(value)}", None)
            return
        for key, each in value.items():
            if key in fields:
                fields[key](each, member(path, key), report)
            else:
                report(member(path, key), "unknown key", _near(key, fields))
        _check_required(value, required, path, report)

    return check


def one_of(fields: Mapping[str, Check]) -> Check:
    """Accept objects with exactly one of these keys."""
    check_object = object_of(fields)

    def check(value: Any, path: str, report: Report) -> None:
        check_object(value, path, report)
        if isinstance(value, dict) and len(value) != 1:
            report(path, f"exactly one key is needed: {', '.join(fields)}", None)

    return check


def _check_required(
    value: dict[str, Any], names: tuple[str, ...], path: str, report: Report
) -> None:
    for name in names:
        if name not in value:
            report(path, f'the key "{name}" is missing', None)


def _near(key: str, fields: Mapping[str, Check]) -> str:
    near = difflib.get_close_matches(key.lower(), fields, n=1) if len(key) < 100 else []
    if near:
        return f'did you mean "{near[0]}"?'
    return f"keys here are {', '.join(fields)}"
