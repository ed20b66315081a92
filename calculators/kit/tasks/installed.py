"""The tasks of this installation, found by their entry points."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.installed_points import installed_points
from calculators.kit.settings.declaration import options_of
from calculators.kit.tasks.endpoint import MODEL, TaskEndpoint
from calculators.kit.tasks.task import DeviceOptions, Task

if TYPE_CHECKING:
    from graph_runtime import Registry

ENTRY_POINT_GROUP: Final = "graphrt.tasks"
_NAMES_MODEL: Final = re.compile(r"/(?:[^{}]+/)?\{model\}:[A-Za-z]+")


@cache
def _loaded() -> tuple[tuple[Task, ...], dict[str, str]]:
    """Return the tasks in the order of their names, and the reasons of failed ones by name."""
    tasks: dict[str, Task] = {}
    failures: dict[str, str] = {}
    # Entry points and no list in the code: a list would prefer our tasks to other packages'
    # (decision 0047).
    for point in sorted(installed_points(ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            task = point.load()
            if not isinstance(task, Task):
                raise TypeError(f"{point.value} must be an object of calculators.kit.tasks.Task")
            if task.name != point.name:
                raise ValueError(f'the task is named "{task.name}"')
            _check(task, tasks.values())
        except Exception as error:
            # One broken package must not disable the others.
            failures[point.name] = f"{type(error).__name__}: {error}"
        else:
            tasks.setdefault(task.name, task)
    return tuple(
        sorted(tasks.values(), key=lambda task: (not task.is_default, task.name))
    ), failures


def _check(task: Task, others: Collection[Task]) -> None:
    """Check a task against the others.

    Raises:
        ValueError: a path or method is invalid, or another task has the path and serves it
            otherwise.
        TypeError: another task declares the same option.
    """
    for endpoint in task.endpoints:
        for path in (endpoint.path, *endpoint.aliases):
            if path != "/" and (not path.startswith("/") or path.endswith("/")):
                raise ValueError(
                    f'the path "{path}" must begin with a slash, and must not end with one'
                )
            if MODEL in path and not _NAMES_MODEL.fullmatch(path):
                raise ValueError(f'the path "{path}" must have a colon and a word after {MODEL}')
        if not endpoint.methods or not set(endpoint.methods) <= {"GET", "POST"}:
            raise ValueError(f'the methods of the path "{endpoint.path}" must be GET, POST or both')
        if endpoint.is_socket and endpoint.methods != ("GET",):
            raise ValueError(f'the WebSocket at the path "{endpoint.path}" must have GET only')
    taken = {
        path: (other, endpoint)
        for other in others
        for endpoint in other.endpoints
        for path in endpoint.paths()
    }
    for endpoint in task.endpoints:
        for path in endpoint.paths():
            if path in taken and _behaviour(taken[path][1]) != _behaviour(endpoint):
                name = taken[path][0].name
                raise ValueError(
                    f'the path "{path}" is the task {name}\'s, which serves it otherwise'
                )
    # For the error: two tasks may not declare one flag.
    tasks = (*others, task)
    options_of(
        DeviceOptions,
        *(one.options for one in tasks),
        *(each for one in tasks for each in one.settings),
    )


def _behaviour(endpoint: TaskEndpoint) -> tuple[object, ...]:
    """Return the attributes that endpoints of one path must share."""
    return (
        endpoint.streams,
        endpoint.always_streams,
        endpoint.query,
        endpoint.streams_by_default,
        endpoint.error_form,
        endpoint.methods,
        endpoint.takes_form,
        endpoint.needs_model,
        endpoint.is_socket,
    )


def installed_tasks() -> tuple[Task, ...]:
    """Return all tasks that can be loaded, the default one first, then by name."""
    return _loaded()[0]


def failed_tasks() -> dict[str, str]:
    """Return the reasons of the entry points that could not be loaded, by name."""
    return _loaded()[1]


def find_task(name: str) -> Task | None:
    """Return the task of that name; None if there is none."""
    return next((task for task in installed_tasks() if task.name == name), None)


def default_task() -> Task | None:
    """Return the task for models whose task is not named; None if no task is the default."""
    return next((task for task in installed_tasks() if task.is_default), None)


def task_of_model(path: Path) -> Task | None:
    """Return the task that recognizes a directory or file as its model, or None.

    The default task is asked last: models of other tasks may look like its own.
    """
    return next((task for task in _default_last() if task.recognizes(path)), None)


def task_of_source(directory: Path) -> Task | None:
    """Return the task that recognizes a directory of safetensors as one to export, or None."""
    return next((task for task in _default_last() if task.recognizes_source(directory)), None)


def _default_last() -> list[Task]:
    return sorted(installed_tasks(), key=lambda task: task.is_default)


def task_of_node(calculator: str) -> Task | None:
    """Return the task of a node with this calculator type; None if it has none."""
    return next((task for task in installed_tasks() if task.serves(calculator)), None)


def settings_of_tasks() -> tuple[type[Any], ...]:
    """Return the dataclasses of the settings of all installed tasks, each once."""
    return tuple(dict.fromkeys(each for task in installed_tasks() for each in task.settings))


@cache
def _endpoints() -> tuple[Mapping[str, TaskEndpoint], Mapping[str, tuple[str, ...]]]:
    """Return the endpoints, and the names of their tasks, by whole path."""
    endpoints: dict[str, TaskEndpoint] = {}
    names: dict[str, tuple[str, ...]] = {}
    for task in installed_tasks():
        for endpoint in task.endpoints:
            for path in endpoint.paths():
                endpoints.setdefault(path, endpoint)
                names[path] = (*names.get(path, ()), task.name)
    return endpoints, names


@cache
def _verbs() -> Mapping[str, tuple[str, ...]]:
    """Return the declared paths that name their model, by the word after the name."""
    verbs: dict[str, tuple[str, ...]] = {}
    for path in _endpoints()[0]:
        _, model, end = path.partition(MODEL)
        if model:
            # The longer beginning first: /v3/v1/models/ before /v3/models/.
            others = (*verbs.get(end[1:], ()), path)
            verbs[end[1:]] = tuple(sorted(others, key=len, reverse=True))
    return verbs


def declared_path(path: str) -> tuple[str, str]:
    """Return a whole path with `MODEL` for a model's name, as it is declared, and the name.

    A name may have slashes and colons: the word after it begins at the last colon. Other paths are
    returned as they are, with "".
    """
    for declared in _verbs().get(path.rpartition(":")[2], ()) if ":" in path else ():
        begin, _, end = declared.partition(MODEL)
        if path.startswith(begin) and len(path) > len(begin) + len(end):
            return declared, path[len(begin) : len(path) - len(end)]
    return path, ""


def endpoint_at(path: str) -> TaskEndpoint | None:
    """Return the endpoint of a whole path; None if no task has one.

    Of endpoints that several tasks have there, all of which behave alike, it is the first.
    """
    endpoints = _endpoints()[0]
    found = endpoints.get(path)
    return endpoints.get(declared_path(path)[0]) if found is None and ":" in path else found


def tasks_at(path: str) -> tuple[str, ...]:
    """Return the names of the tasks that have an endpoint at a whole path."""
    return _endpoints()[1].get(declared_path(path)[0], ())


def endpoint_paths() -> frozenset[str]:
    """Return the whole paths of all endpoints."""
    return frozenset(_endpoints()[0])


@cache
def _operations() -> dict[str, str]:
    return {
        endpoint.path[1:]: endpoint.operation
        for task in installed_tasks()
        for endpoint in task.endpoints
        if endpoint.operation
    }


def operation_of(path: str) -> str:
    """Return the name of an endpoint's operation in traces. ``path``: without its first slash."""
    return _operations().get(path, path)


def register(registry: Registry) -> None:
    """Add the calculators and resource initializers of all tasks to a registry.

    A task that fails is left out; the registry's ``failed_entry_points`` has the reason.
    """
    for task in installed_tasks():
        if task.calculators:
            registry.register_family(partial(_has, task), partial(_register, task))
        else:
            _register(task, registry)
    registry.failed_entry_points.update(failed_tasks())


def _has(task: Task, calculator: str) -> bool:
    return calculator in task.calculators or task.serves(calculator)


def _register(task: Task, registry: Registry) -> None:
    try:
        task.register(registry)
    except Exception as error:
        registry.failed_entry_points[task.name] = f"{type(error).__name__}: {error}"
