"""Tasks: uses of models that a server offers, each described in a folder of its own.

A family that serves an endpoint describes itself as one `Task` and names it in an entry point of
the group ``graphrt.tasks``. Third-party packages do the same. Servers ask `installed_tasks` for
paths, for the options of ``graphrt serve --task``, and for their OpenAPI document, and know no task
by name.
"""

from calculators.kit.tasks.author_endpoint import AuthorEndpoint, is_servers
from calculators.kit.tasks.endpoint import (
    PREFIXES,
    ErrorForm,
    StreamForm,
    TaskEndpoint,
    without_prefix,
)
from calculators.kit.tasks.installed import (
    ENTRY_POINT_GROUP,
    declared_path,
    default_task,
    endpoint_at,
    endpoint_paths,
    failed_tasks,
    find_task,
    installed_tasks,
    operation_of,
    register,
    settings_of_tasks,
    task_of_model,
    task_of_node,
    task_of_source,
    tasks_at,
)
from calculators.kit.tasks.task import ModelToServe, Task, TaskError

__all__ = [
    "ENTRY_POINT_GROUP",
    "PREFIXES",
    "AuthorEndpoint",
    "ErrorForm",
    "ModelToServe",
    "StreamForm",
    "Task",
    "TaskEndpoint",
    "TaskError",
    "declared_path",
    "default_task",
    "endpoint_at",
    "endpoint_paths",
    "failed_tasks",
    "find_task",
    "installed_tasks",
    "is_servers",
    "operation_of",
    "register",
    "settings_of_tasks",
    "task_of_model",
    "task_of_node",
    "task_of_source",
    "tasks_at",
    "without_prefix",
]
