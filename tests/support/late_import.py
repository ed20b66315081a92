"""Packages that tests import when they use them, not when they are collected."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest


class LateImport:
    """A package that is imported with its first use: each worker collects all tests.

    Tests of the module that makes it are skipped where the package is not installed.
    """

    def __init__(self, name: str, reason: str) -> None:
        if importlib.util.find_spec(name) is None:
            pytest.skip(reason, allow_module_level=True)
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)
