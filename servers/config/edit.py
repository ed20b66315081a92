"""Changes of a config.json that keep everything else in it as it is written."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from graphrt_base.regular_file import read_regular_file
from servers.config.json_text import JsonSyntaxError, parse_json
from servers.config.server_config import MAX_BYTES

#: The list to which OpenVINO Model Server adds graphs and plain models.
MODEL_LIST: Final = "model_config_list"
GRAPH_LIST: Final = "mediapipe_config_list"

_SPACE: Final = " \t\r\n"
_INDENT: Final = "  "


class EditError(Exception):
    """A change cannot be made; the file is as it was."""


def add_entry(path: Path, config: Mapping[str, Any]) -> None:
    """Add a servable to a config.json, and create the file if necessary.

    Args:
        config: the object ``config`` of an entry of `MODEL_LIST`.

    Raises:
        EditError: the name is taken, or the file is not a config.json.
        OSError: the file cannot be read or written.
    """
    _edit(path, lambda text: with_entry(text, config))


def remove_entry(path: Path, name: str) -> None:
    """Remove the servable of this name from a config.json; errors as `add_entry` has them."""
    _edit(path, lambda text: without_entry(text, name))


def with_entry(text: str, config: Mapping[str, Any]) -> str:
    """Return the text of a config.json with one more entry; "" stands for a missing file.

    Raises:
        EditError: the name is taken, or the text is not a config.json.
    """
    if not text.strip():
        return json.dumps({MODEL_LIST: [{"config": dict(config)}]}, indent=2) + "\n"
    for entry in _entries(text):
        if entry.name == config["name"]:
            raise EditError(f'"{entry.name}" is listed already, in {entry.list_name}')
    added = json.dumps({"config": dict(config)}, ensure_ascii=False)
    start = _list_start(text, MODEL_LIST)
    if start is None:
        return _with_member(text, f'"{MODEL_LIST}": [\n{_INDENT * 2}{added}\n{_INDENT}]')
    spans = list(_elements(text, start))
    if not spans:
        end = _after_space(text, start + 1)
        return f"{text[: start + 1]}\n{_INDENT * 2}{added}\n{_INDENT}{text[end:]}"
    first, last = spans[0], spans[-1]
    # A further element stands as the first one does: on a line of its own, or not.
    before = text[start + 1 : first[0]]
    return f"{text[: last[1]]},{before or ' '}{added}{text[last[1] :]}"


def without_entry(text: str, name: str) -> str:
    """Return the text of a config.json without the entry of this name.

    Raises:
        EditError: there is none, or the text is not a config.json.
    """
    entries = _entries(text)
    for entry in entries:
        if entry.name == name:
            break
    else:
        names = ", ".join(f'"{each.name}"' for each in entries) or "nothing"
        raise EditError(f'"{name}" is not listed; the config lists {names}')
    start = _list_start(text, entry.list_name)
    assert start is not None
    spans = list(_elements(text, start))
    place = spans.index((entry.start, entry.end))
    if len(spans) == 1:
        return text[: start + 1] + text[_after_space(text, entry.end) :]
    if place == 0:
        return text[: entry.start] + text[spans[1][0] :]
    return text[: spans[place - 1][1]] + text[entry.end :]


# Text ---------------------------------------------------------------------------------------------


class _ConfigEntry(NamedTuple):
    name: str
    list_name: str
    start: int
    end: int


def _entries(text: str) -> list[_ConfigEntry]:
    """Return the entries of both lists with their places."""
    try:
        document = parse_json(text).value
    except JsonSyntaxError as error:
        raise EditError(f"{error.line}:{error.column}: {error}") from None
    if not isinstance(document, Mapping):
        raise EditError("a config.json is a JSON object")
    found: list[_ConfigEntry] = []
    for list_name in (GRAPH_LIST, MODEL_LIST):
        if list_name not in document:
            continue
        values = document[list_name]
        if not isinstance(values, list):
            raise EditError(f"{list_name} is not a list")
        start = _list_start(text, list_name)
        assert start is not None
        for value, (begin, end) in zip(values, _elements(text, start), strict=True):
            config = value.get("config", value) if isinstance(value, Mapping) else None
            name = config.get("name") if isinstance(config, Mapping) else None
            if isinstance(name, str):
                found.append(_ConfigEntry(name, list_name, begin, end))
    return found


def _members(text: str) -> Iterator[tuple[str, int]]:
    """Yield the keys of the text's object with the places of their values."""
    decoder = json.JSONDecoder()
    at = _after_space(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        yield key, at
        _, at = decoder.raw_decode(text, at)
        at = _after_space(text, at)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _list_start(text: str, name: str) -> int | None:
    """Return the place of a list's bracket, or None if there is no such list."""
    return dict(_members(text)).get(name)


def _elements(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each element of the list whose bracket is at ``start``."""
    decoder = json.JSONDecoder()
    at = _after_space(text, start + 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        yield at, end
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _with_member(text: str, member: str) -> str:
    """Return the text of an object with one more member at its end."""
    end = text.rindex("}")
    content = text[:end].rstrip(_SPACE)
    comma = "" if content.endswith("{") else ","
    return f"{content}{comma}\n{_INDENT}{member}\n{text[end:]}"


def _after_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


# Files --------------------------------------------------------------------------------------------


def _edit(path: Path, change: Callable[[str], str]) -> None:
    """Apply a change to a file's text and replace the file in one step, under a lock."""
    # A link stays a link; the file that it names is replaced.
    path = path.resolve()
    with _turn(path.parent):
        try:
            before = read_regular_file(path, MAX_BYTES).decode()
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            before, mode = "", 0o644
        except UnicodeDecodeError:
            raise EditError("it is not UTF-8") from None
        after = change(before)
        replace_file(path, after, mode)


def replace_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file, so that a crash, a full disk or a power failure leaves the old one or the new.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def _turn(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes that edit configs with this module."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
