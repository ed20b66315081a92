"""Values of options: functions from the word of a flag to its value, for argparse's ``type``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

LOG_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR")

_INTEGER: Final = re.compile(r"-?\d+\Z", re.ASCII)
_CHANNEL_ARGUMENT: Final = re.compile(r"[A-Za-z][\w.-]*\Z", re.ASCII)
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+\Z", re.I)
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)(i?b)?\Z", re.I)


_TRUTH_VALUES: Final = ("true", "false")
_NEARLY: Final = ("yes", "no", "on", "off", "1", "0")


def is_truth_value(text: str) -> bool:
    """Return whether the text is ``true`` or ``false``, in any case."""
    return text.lower() in _TRUTH_VALUES


def is_meant_as_truth_value(text: str) -> bool:
    """Return whether the text means a truth value, such as ``yes``; `switch` refuses most."""
    return text.lower() in (*_TRUTH_VALUES, *_NEARLY)


def switch(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if not is_truth_value(text):
        raise argparse.ArgumentTypeError(f"true or false is needed, not {text!r}")
    return text.lower() == "true"


def switch_or_auto(text: str) -> bool | None:
    """Read ``true`` or ``false``, or ``auto``, which is None."""
    if text.lower() == "auto":
        return None
    if not is_truth_value(text):
        raise argparse.ArgumentTypeError(f"true, false or auto is needed, not {text!r}")
    return switch(text)


def port(text: str) -> int:
    """Read a port's number, 0 included."""
    if not text.isdecimal() or len(text) > 9 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a number from 0 to 65535 is needed: {text!r}")
    return int(text)


def rest_port(text: str) -> int | str:
    """Read a port's number, or ``auto``."""
    return text if text == "auto" else port(text)


def hosts(text: str) -> tuple[str, ...]:
    """Read names or addresses separated by commas, IPv6 with or without brackets."""
    found = tuple(host.strip().strip("[]") for host in text.split(","))
    if not all(re.fullmatch(r"[\w.:%-]+", host) for host in found):
        raise argparse.ArgumentTypeError(f"host names or IP addresses are needed: {text!r}")
    return found


def channel_arguments(text: str) -> dict[str, int | str]:
    """Read gRPC's settings, ``name=value`` separated by commas; whole numbers become int."""
    arguments: dict[str, int | str] = {}
    for word in words(text):
        name, equals, value = word.partition("=")
        is_number = _INTEGER.match(value) is not None
        if not equals or _CHANNEL_ARGUMENT.match(name) is None:
            raise argparse.ArgumentTypeError(
                "NAME=VALUE with commas between them is needed, as in "
                f"grpc.max_concurrent_streams=100: {word!r}"
            )
        if is_number and (len(value) > 11 or not -(2**31) <= int(value) < 2**31):
            raise argparse.ArgumentTypeError(f"gRPC's numbers have 32 bits: {word!r}")
        arguments[name] = int(value) if is_number else value
    return arguments


def words(text: str) -> tuple[str, ...]:
    """Read words separated by commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def origins(text: str) -> tuple[str, ...]:
    """Read origins of web pages as browsers send them, or ``*``."""
    found = words(text)
    for word in found:
        if word != "*" and _ORIGIN.match(word) is None:
            raise argparse.ArgumentTypeError(
                f"an origin is https://NAME or https://NAME:PORT, and no more: {word!r}"
            )
    return found


def routes(text: str) -> tuple[str, ...]:
    """Read paths that begin with a slash and may end with a star."""
    found = words(text)
    for word in found:
        if not word.startswith("/") or "*" in word[:-1] or "?" in word:
            raise argparse.ArgumentTypeError(
                f"a path is needed, /metrics, or /v3/models* for all that begin so: {word!r}"
            )
    return found


def size(text: str) -> int:
    """Read a number of bytes: ``1048576``, ``512K``, ``64M``."""
    match = _SIZE.match(text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"a number of bytes is needed, 1048576 or 64M: {text!r}")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    return _number(text, 1)


def count_up_to(most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from 1 to ``most``."""

    def read(text: str) -> int:
        number = _number(text, 1)
        if number > most:
            raise argparse.ArgumentTypeError(f"a number from 1 to {most} is needed: {text!r}")
        return number

    return read


def count_or_zero(text: str) -> int:
    """Read a whole number of at least 0."""
    return _number(text, 0)


def seconds(text: str) -> float:
    """Read a number of seconds, 0 included."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 on is needed: {text!r}")
    return number


def url(text: str) -> str:
    """Read the URL of a server: http or https, with a host."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise argparse.ArgumentTypeError(f"a URL is needed, http://localhost:4318, not {text!r}")
    return text


def log_level(text: str) -> str:
    """Read one of `LOG_LEVELS`, in any case."""
    level = text.upper()
    if level not in LOG_LEVELS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(LOG_LEVELS)} is needed: {text!r}")
    return level


def one_of(served: Sequence[str], not_served: Sequence[str] = ()) -> Callable[[str], str]:
    """Make a reader of the words ``served``. Words ``not_served`` have an error of their own."""

    def check(text: str) -> str:
        if text in served:
            return text
        known = ", ".join(word for word in served if word)
        if text in not_served:
            raise argparse.ArgumentTypeError(
                f"{text} is not served by this version; served: {known}"
            )
        raise argparse.ArgumentTypeError(
            f"{text!r} is not known.{_near(text, (*served, *not_served))} Known here: {known}"
        )

    return check


def _number(text: str, least: int) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < least:
        raise argparse.ArgumentTypeError(f"a number from {least} on is needed: {text!r}")
    return int(text)


def _near(text: str, words: Sequence[str]) -> str:
    import difflib

    by_key = {word.lower(): word for word in words}
    near = difflib.get_close_matches(text.lower(), by_key, n=1)
    return f" Did you mean `{by_key[near[0]]}`?" if near else ""
