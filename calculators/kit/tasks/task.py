"""`Task`: the description of a family of calculators with endpoints, for servers.

The description is needed before the task is loaded, also for ``graphrt serve --help``: its module
imports this room and nothing that takes time. The functions of a task import what they need when
they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calculators.kit.tasks.endpoint import TaskEndpoint
from calculators.kit.tasks.options import NoOptions

if TYPE_CHECKING:
    from calculators.kit.tasks.operation import TaskDescription
    from graph_runtime import NodePlan, Registry, ResourceSettings


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


def _no_names(config: Any) -> tuple[str, ...]:
    return ()


def _no_arguments(path: Path, options: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_facts(resource: Any) -> Mapping[str, Any]:
    return {}


def _no_messages(node: NodePlan, settings: ResourceSettings) -> Mapping[str, bytes]:
    return {}


def _no_model(path: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: the value for ``graphrt serve --task``; OpenVINO Model Server's name if it has one.
        endpoints: the endpoints, in the order in which errors and documents list them.
        register: adds the task's calculators and resource initializers to a registry.
        calculators: the types that ``register`` adds. If they are given, ``register`` is called
            only when a graph names one of them, or one that the task ``serves``.
        serves: returns whether a node of this calculator type belongs to the task.
        describe: returns operations and schemas of the endpoints for the OpenAPI document; the
            argument is the name of a model for examples.
        graph: returns the text of a graph that serves a model; the first argument has the given
            ``options`` by field. Raises `TaskError`.
        example: returns path and body of a first request to a model of this name; a value that
            begins with "@" is a file, and makes the body a form.
        docs: the page about the task, a path in the repository.
        options: the options of ``graph`` for the command line: a frozen dataclass whose fields are
            declared with `calculators.kit.settings.declaration.option`. Tasks share options by
            inheritance.
        recognizes: returns whether a directory or file is a model of the task, so that ``--task``
            may be left out.
        recognizes_source: returns whether a directory of safetensors is a model of the task, which
            an export makes servable.
        export_arguments: returns arguments of ``optimum-cli export openvino`` for a directory of
            safetensors; None: models of the task are not exported.
        further_export_arguments: returns arguments that follow from the given ``options`` by field,
            in addition to ``export_arguments``.
        model_flags: flags of ``options`` whose values are further models: directories, or names of
            a hub's models, which servers download.
        is_default: the task is assumed where none is named.
        generates_text: requests have generations to count.
        model_facts: returns further members of a model in ``/v3/models``, such as
            ``max_model_len``, from the resource of its node; values are JSON's.
        processes: modules of the processes that a node of the task starts when it loads, with
            their environment variables: a server may start them early
            (`calculators.kit.child_process.early_start`).
        first_messages: returns the first messages to ``processes`` of a node, by module, as loading
            the node will send them, where they are known without making or writing anything. Raises
            `ResourceError` as loading does.
        further_names: returns the names of a graph (a ``CalculatorGraphConfig``) besides its own,
            such as names of adapters.
    """

    name: str
    endpoints: tuple[TaskEndpoint, ...]
    register: Callable[[Registry], None]
    serves: Callable[[str], bool]
    describe: Callable[[str], TaskDescription]
    graph: Callable[[Mapping[str, Any], ModelToServe], str]
    example: Callable[[str], tuple[str, dict[str, Any]]]
    docs: str
    calculators: tuple[str, ...] = ()
    options: type[Any] = NoOptions
    recognizes: Callable[[Path], bool] = _no_model
    recognizes_source: Callable[[Path], bool] = _no_model
    export_arguments: Callable[[Path], tuple[str, ...]] | None = None
    further_export_arguments: Callable[[Path, Mapping[str, Any]], tuple[str, ...]] = _no_arguments
    model_flags: tuple[str, ...] = ()
    is_default: bool = False
    generates_text: bool = False
    processes: tuple[tuple[str, Mapping[str, str]], ...] = ()
    first_messages: Callable[[NodePlan, ResourceSettings], Mapping[str, bytes]] = _no_messages
    model_facts: Callable[[Any], Mapping[str, Any]] = _no_facts
    further_names: Callable[[Any], Iterable[str]] = _no_names
