"""The tasks of this installation, found by their entry points."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from calculators.settings.declaration import options_of
from calculators.tasks.options import DeviceOptions
from calculators.tasks.task import Task

if TYPE_CHECKING:
    from graph_runtime import Registry

ENTRY_POINT_GROUP: Final = "graphrt.tasks"

#: The tasks of OpenVINO Model Server, for errors about tasks that are not installed.
KNOWN_ELSEWHERE: Final = (
    "text_generation",
    "embeddings",
    "rerank",
    "image_generation",
    "text2speech",
    "speech2text",
)


@cache
def _loaded() -> tuple[tuple[Task, ...], dict[str, str]]:
    """Return the tasks in the order of their names, and the reasons of failed ones by name."""
    tasks: dict[str, Task] = {}
    failures: dict[str, str] = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            task = point.load()
            if not isinstance(task, Task):
                raise TypeError(f"{point.value} is no calculators.tasks.Task")
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
        ValueError: a path is invalid, or belongs to another task.
        TypeError: another task declares the same option.
    """
    for endpoint in task.endpoints:
        if not endpoint.path.startswith("/") or endpoint.path.endswith("/"):
            raise ValueError(
                f'the path "{endpoint.path}" must begin with a slash, and must not end with one'
            )
    own = {endpoint.path for endpoint in task.endpoints}
    for other in others:
        for path in sorted(own & {endpoint.path for endpoint in other.endpoints}):
            raise ValueError(f'the path "{path}" is the task {other.name}\'s')
    options_of(DeviceOptions, *(other.options for other in others), task.options)


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


def task_of_node(calculator: str) -> Task | None:
    """Return the task of a node with this calculator type; None if it has none."""
    return next((task for task in installed_tasks() if task.serves(calculator)), None)


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
        try:
            task.register(registry)
        except Exception as error:
            registry.failed_entry_points[task.name] = f"{type(error).__name__}: {error}"
    registry.failed_entry_points.update(failed_tasks())
