"""Headings of the help that options of several rooms share."""

from __future__ import annotations

from typing import Final

from calculators.kit.settings.declaration import Group

RUNNING: Final = Group("running")
MEDIA: Final = Group("images that requests name")
TASK: Final = Group(
    "a model without a graph",
    "When DIR holds no graph.pbtxt, a graph for its model is made; nothing is written.\n"
    "These are the options of its node.",
)
