"""``keep_alive`` of Ollama's API: how long a model stays loaded after a request."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Value, honoured
from calculators.kit.requests.schema import number, one_of, string

#: Seconds of a unit, by Go's names.
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,12})?)(ns|us|µs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[+-]?((?:{_PART.pattern})+|[0-9]{{1,12}})")
_LONGEST: Final = 99


def keep_alive_seconds(value: Any, path: str) -> float:
    """Return the seconds; infinity for ever, which clients write as a negative number.

    Raises:
        RequestError: it is neither a number of seconds nor a duration such as "5m".
    """
    if isinstance(value, str) and len(value) <= _LONGEST and _WHOLE.fullmatch(value):
        parts = _PART.findall(value)
        seconds = sum(float(count) * _UNITS[unit] for count, unit in parts)
        seconds = seconds if parts else float(value)
        return math.inf if value.startswith("-") and seconds else seconds
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.inf if value < 0 else min(float(value), 1e12)
    raise fields.wrong_type(path, 'seconds, or a duration such as "5m"', value)


KEEP_ALIVE: Final = honoured(
    "keep_alive",
    Value(
        one_of(number(), string(pattern=f"^{_WHOLE.pattern}$", maxLength=_LONGEST)),
        keep_alive_seconds,
    ),
    "0 unloads a model that loads on demand and that nobody else uses, where clients may unload. "
    "Otherwise the server's own limits say how long a model stays.",
)
