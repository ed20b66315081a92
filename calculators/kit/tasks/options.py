"""Options that several tasks share: of ``graphrt serve --task``, and of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calculators.kit.settings.declaration import TASK, option

if TYPE_CHECKING:
    from graph_runtime import NodePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """The options of a task without options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """The options for OpenVINO's device; "" leaves the choice to OpenVINO."""

    target_device: str = option(
        "",
        "CPU, GPU, ...; default a GPU if there is one",
        group=TASK,
        metavar="DEVICE",
        config_key="{flag}",
    )
    plugin_config: str = option(
        "",
        "OpenVINO properties, as a JSON object",
        group=TASK,
        metavar="JSON",
        config_key="{flag}",
    )


@contextmanager
def naming_node(node: NodePlan) -> Iterator[None]:
    """Put the name of a node before the text of each `ResourceError` raised inside."""
    from graph_runtime import ResourceError

    try:
        yield
    except ResourceError as error:
        raise ResourceError(f'node "{node.config.name}": {error}', code=error.code) from None


def find_model_options(node: NodePlan, options_type: str) -> Any:
    """Return the options of a node that has ``models_path``, a message of the type of that name.

    Raises:
        ResourceError: the node has none; the text says how to write them.
    """
    from graph_runtime import ResourceError, find_options, has_options

    if not has_options(node.config, options_type):
        raise ResourceError(
            "it has no options; it needs at least node_options: { "
            f'[type.googleapis.com/{options_type}]: {{ models_path: "./" }} }}'
        )
    return find_options(node.config, options_type)
