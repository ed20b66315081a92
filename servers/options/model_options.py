"""The options for one model: of the graph that its task makes, and of a plain model.

Names are OpenVINO Model Server's (``cli_parser.cpp``); those of tasks stand with the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calculators.settings.declaration import Option, option, options_of
from calculators.settings.groups import TASK
from calculators.settings.value_types import count_or_zero, one_of
from calculators.tasks import KNOWN_ELSEWHERE, default_task, installed_tasks
from calculators.tasks.options import DeviceOptions
from servers.options.groups import MODEL


def task_choice() -> Option:
    """``--task``: one of the installed tasks."""
    names = tuple(task.name for task in installed_tasks())
    default = default_task()
    text = f"{', '.join(names)}; default {default.name}" if default is not None else "none is known"
    return Option(
        name="task",
        flag="task",
        group=TASK,
        metavar="TASK",
        reads=one_of(names, tuple(name for name in KNOWN_ELSEWHERE if name not in names)),
        default=None,
        help=text,
    )


def task_options() -> tuple[Option, ...]:
    """The options of all installed tasks, and those that plain models have in any case."""
    return options_of(*(task.options for task in installed_tasks()), DeviceOptions)


def _key(metavar: str, help_text: str, reads: Callable[[str], object] = str) -> Any:
    """A field whose flag is a key of ``model_config_list`` too."""
    return option(None, help_text, group=MODEL, metavar=metavar, reads=reads, config_key="{flag}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options of a plain model, as they are written; `servers.config` checks them."""

    shape: str | None = _key(
        "SHAPE", '"(1,3,224,224)", with -1 or 2:8 for lengths that vary; or auto'
    )
    batch_size: str | None = _key("N", "a number, a range 2:8, or auto")
    layout: str | None = _key("LAYOUT", "NHWC:NCHW: what clients send, and what the model takes")
    precision: str | None = _key("TYPES", "uint8:fp32: what clients send, and what the model takes")
    color_format: str | None = _key(
        "FORMATS", "RGB:BGR: what the model takes, and what clients send"
    )
    mean: str | None = _key(
        "NUMBERS", "taken from what clients send: 127.5, or one per channel, [1,2,3]"
    )
    scale: str | None = _key("NUMBERS", "what that is divided by")
    model_version_policy: str | None = _key("JSON", '{"latest": {"num_versions": 1}}, the default')
    nireq: int | None = _key(
        "N", "inferences at a time; default 0, as OpenVINO advises", count_or_zero
    )
