"""The arguments of the application for `serve deploy`; it runs in tests/ray."""

from __future__ import annotations

from typing import Any

import pytest

from servers.replicas.application import application


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"confg": "x"}, "the unknown key confg"),
        ({}, "config has to be the path of a config.json"),
        ({"config": "x", "arguments": [8000]}, "arguments a list of strings"),
    ],
)
def test_wrong_arguments_are_named(args: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        application(args)
