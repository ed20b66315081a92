"""`Task`: everything that servers need to know of a family of calculators that has endpoints.

A task is described before anything of it is loaded, also for ``graphrt serve --help``: its module
imports this room and nothing that takes time. The functions of a task import what they need when
they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.tasks.options import NoOptions

if TYPE_CHECKING:
    from calculators.tasks.operation import TaskDescription
    from graph_runtime import Registry

#: Under which the endpoints of tasks are served: OpenVINO Model Server's own prefix first; its
#: clients use /v3, those of OpenAI /v1.
PREFIXES: Final = ("/v3", "/v3/v1", "/v1")


class ErrorForm(Enum):
    """The JSON object that a client expects an error to be."""

    OPENAI = auto()
    #: For servers' own paths under ``/v2``; no task has it.
    KSERVE = auto()
    ANTHROPIC = auto()


class TaskError(ValueError):
    """An option of a task has a value that it cannot have; the text names it as ``--option``."""


@dataclass(frozen=True, slots=True)
class TaskEndpoint:
    """A path that graphs with nodes of the task answer, by POST.

    Attributes:
        path: the end, ``/embeddings``; it is served under each of `PREFIXES`.
        streams: does ``"stream": true`` in a request ask for server-sent events?
        error_form: of its errors.
        operation: the name of the operation in traces (OpenTelemetry's ``gen_ai.operation.name``);
            "" is the path without its first slash.
    """

    path: str
    streams: bool = False
    error_form: ErrorForm = ErrorForm.OPENAI
    operation: str = ""


def _no_names(config: Any) -> tuple[str, ...]:
    return ()


def _no_directory(directory: Path) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: as ``graphrt serve --task`` takes it; OpenVINO Model Server's where it has the task.
        endpoints: in the order in which errors and documents list them.
        register: adds the task's calculators and resource initializers to a registry.
        serves: is a node of this calculator type the task's?
        describe: operations and schemas of the endpoints for the OpenAPI document; the argument is
            the name of a model for examples.
        graph: the text of a graph that serves the model in the graph's own directory, from the
            ``options`` that were given, by field; raises `TaskError`.
        example: path and JSON body of a first request to a model of this name.
        docs: the page about it, a path in the repository.
        options: of ``graph``, for the command line: a frozen dataclass whose fields are declared
            with `calculators.settings.declaration.option`. What two tasks share they inherit.
        recognizes: does a directory hold a model of the task, so that ``--task`` may be left out?
        is_default: is it the one that is meant where nothing else is said?
        generates_text: are there generations to count in a request's record?
        further_names: under which the graph of this config (a ``CalculatorGraphConfig``) is served
            besides its own name, such as those of adapters.
    """

    name: str
    endpoints: tuple[TaskEndpoint, ...]
    register: Callable[[Registry], None]
    serves: Callable[[str], bool]
    describe: Callable[[str], TaskDescription]
    graph: Callable[[Mapping[str, Any]], str]
    example: Callable[[str], tuple[str, dict[str, Any]]]
    docs: str
    options: type[Any] = NoOptions
    recognizes: Callable[[Path], bool] = _no_directory
    is_default: bool = False
    generates_text: bool = False
    further_names: Callable[[Any], Iterable[str]] = _no_names
