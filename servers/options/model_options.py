"""Options for one model: for the graph that its task makes, and for a plain model.

The names are OpenVINO Model Server's (``cli_parser.cpp``). Tasks declare their own options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calculators.kit.settings.declaration import Option, option, options_of
from calculators.kit.settings.groups import TASK
from calculators.kit.settings.value_types import count_or_zero, one_of
from calculators.kit.tasks import KNOWN_ELSEWHERE, installed_tasks
from calculators.kit.tasks.options import DeviceOptions
from servers.options.groups import MODEL


def task_choice() -> Option:
    """Return the option ``--task``, whose values are the installed tasks."""
    names = tuple(task.name for task in installed_tasks())
    text = f"{', '.join(names)}; default: the one that the model's files show"
    return Option(
        name="task",
        flag="task",
        group=TASK,
        metavar="TASK",
        reads=one_of(names, tuple(name for name in KNOWN_ELSEWHERE if name not in names)),
        default=None,
        help=text if names else "none is known",
    )


def task_options() -> tuple[Option, ...]:
    """Return the options of all installed tasks, and the options that all plain models have."""
    return options_of(*(task.options for task in installed_tasks()), DeviceOptions)


def _key(metavar: str, help_text: str, reads: Callable[[str], object] = str) -> Any:
    """Declare a field whose flag is also a key of ``model_config_list``."""
    return option(None, help_text, group=MODEL, metavar=metavar, reads=reads, config_key="{flag}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options of a plain model, unparsed; `servers.config` checks them."""

    shape: str | None = _key(
        "SHAPE", '"(1,3,224,224)", with -1 or 2:8 for lengths that vary, or auto'
    )
    batch_size: str | None = _key("N", "a number, a range 2:8, or auto")
    layout: str | None = _key("LAYOUT", "NHWC:NCHW: the layout of clients and of the model")
    precision: str | None = _key("TYPES", "uint8:fp32: the type of clients and of the model")
    color_format: str | None = _key("FORMATS", "RGB:BGR: the format of the model and of clients")
    mean: str | None = _key("NUMBERS", "subtracted from inputs: 127.5, or one per channel, [1,2,3]")
    scale: str | None = _key("NUMBERS", "divides inputs after the mean is subtracted")
    model_version_policy: str | None = _key("JSON", 'default {"latest": {"num_versions": 1}}')
    nireq: int | None = _key(
        "N", "inferences at a time; default 0: as OpenVINO recommends", count_or_zero
    )


def entry_options() -> tuple[Option, ...]:
    """Return the options of a plain model that are keys of its entry in config.json."""
    return tuple(each for each in options_of(ModelOptions, DeviceOptions) if each.config_key)
