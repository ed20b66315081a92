"""The product's modules, which most of these tests look through, read and parsed once."""

from __future__ import annotations

import gc
from collections.abc import Mapping

import pytest

from bench.house import Module, read_modules


@pytest.fixture(scope="package")
def modules() -> Mapping[str, Module]:
    """The modules of the product, by their dotted names."""
    # Millions of objects without a circle. To search for garbage among them takes longer than to
    # parse all modules.
    gc.disable()
    try:
        return read_modules()
    finally:
        gc.freeze()
        gc.enable()
