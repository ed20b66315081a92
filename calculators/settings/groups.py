"""Headings of the help under which options of several rooms stand."""

from __future__ import annotations

from typing import Final

from calculators.settings.declaration import Group

RUNNING: Final = Group("running")
MEDIA: Final = Group("images that requests name")
