"""Python functions as tools: the public ones of this module."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo


def get_time(zone: Annotated[str, "a time zone, such as Europe/Paris"] = "UTC") -> str:
    """Get the time in a time zone"""
    return datetime.now(ZoneInfo(zone)).isoformat(timespec="minutes")
