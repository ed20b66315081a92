"""Assembly of the OpenAPI document."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from calculators.kit.requests.members import OTHERS_ARE_REFUSED
from calculators.kit.requests.schema import Schema
from calculators.kit.requests.unknown_members import UnknownMembers
from calculators.kit.tasks import installed_tasks
from calculators.kit.tasks.operation import Operation, TaskDescription
from servers import NAME, version
from servers.fronts.http.settings import HttpSettings
from servers.fronts.openapi.batch_operations import BATCH_SCHEMAS, batch_operations
from servers.fronts.openapi.errors import ERROR_SCHEMAS, error_answers
from servers.fronts.openapi.graph_operations import GRAPH_SCHEMAS, graph_operations
from servers.fronts.openapi.keys import SECURITY_SCHEMES, Keys
from servers.fronts.openapi.kserve_operations import kserve_operations
from servers.fronts.openapi.kserve_schemas import KSERVE_SCHEMAS
from servers.fronts.openapi.operation import all_errors, joined, operation_object
from servers.fronts.openapi.page_operations import (
    page_file_operations,
    page_operations,
    page_schemas,
)
from servers.fronts.openapi.parameters import (
    HEADERS,
    OF_BATCHES,
    OF_SOME_TASKS,
    OF_THE_PAGE,
    PARAMETERS,
)
from servers.fronts.openapi.server_operations import SERVER_SCHEMAS, server_operations

_log = logging.getLogger(__name__)

_OTHERS_CHANGE_NOTHING = "Other members than these change nothing."
_OTHERS_ARE_LEFT_OUT = (
    "Other members than these are left out and named in the header `Warning`; what looks like a "
    "misspelt one of these is refused."
)
_ABOUT = """\
A server of graphs and models. Paths with GET also have HEAD, and OPTIONS lists the methods of a \
path; other methods get 405 with `Allow`. Objects may get more members in later versions."""


def openapi_document(
    settings: HttpSettings, model: str = "demo", *, has_batches: bool = False
) -> bytes:
    """Return the document of a front with these settings, as JSON.

    Args:
        model: a language model for its examples.
        has_batches: files and batches are served.
    """
    document = describe(settings, model, has_batches=has_batches)
    return json.dumps(document, separators=(",", ":")).encode()


def describe(settings: HttpSettings, model: str, *, has_batches: bool = False) -> dict[str, Any]:
    """Return the document as an object."""
    keys = Keys(settings.access)
    tasks = list(_descriptions(model))
    operations = [
        *(each for task in tasks for each in task.operations),
        *graph_operations(),
        *kserve_operations(model),
        *server_operations(),
        *((*page_file_operations(), *page_operations()) if settings.page.page else ()),
        *(batch_operations() if has_batches else ()),
    ]
    schemas = _merged(
        ERROR_SCHEMAS,
        *(task.schemas for task in tasks),
        GRAPH_SCHEMAS,
        KSERVE_SCHEMAS,
        SERVER_SCHEMAS,
        page_schemas() if settings.page.page else {},
        BATCH_SCHEMAS if has_batches else {},
    )
    if settings.unknown_members is not UnknownMembers.REFUSE:
        is_silent = settings.unknown_members is UnknownMembers.IGNORE
        others = _OTHERS_CHANGE_NOTHING if is_silent else _OTHERS_ARE_LEFT_OUT
        schemas = {name: _open(schema, others) for name, schema in schemas.items()}
    reported = {(each.form, status) for each in operations for status in all_errors(each)}
    components: dict[str, Any] = {
        "schemas": schemas,
        "parameters": _used_parameters(
            operations, has_page=settings.page.page, has_batches=has_batches
        ),
        "headers": HEADERS,
        "responses": error_answers(settings, reported),
    }
    if keys.are_needed:
        components["securitySchemes"] = SECURITY_SCHEMES
    return {
        "openapi": "3.1.0",
        "info": {
            "title": NAME,
            "version": version(),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "tags": [{"name": tag} for tag in dict.fromkeys(each.tag for each in operations)],
        "paths": _paths(operations, keys),
        "components": components,
    }


def _descriptions(model: str) -> Iterator[TaskDescription]:
    """Return the descriptions of all tasks except broken ones, which must not stop the server."""
    for task in installed_tasks():
        try:
            yield task.describe(model)
        except Exception:
            _log.exception("the task %s is not in the OpenAPI document", task.name)


def _used_parameters(
    operations: list[Operation], *, has_page: bool, has_batches: bool
) -> dict[str, Any]:
    """Return the parameters without those of `OF_SOME_TASKS` that no operation has."""
    used = {name for operation in operations for name in operation.parameters}
    unused = OF_SOME_TASKS - used
    if not has_page:
        unused |= OF_THE_PAGE
    if not has_batches:
        unused |= OF_BATCHES
    return {name: described for name, described in PARAMETERS.items() if name not in unused}


def _paths(operations: list[Operation], keys: Keys) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        for suffix, path in operation.paths.items():
            described = keys.added_to(
                operation_object(operation, suffix, path), path, operation.form
            )
            methods = paths.setdefault(path, {})
            if operation.method in methods:
                described = joined(methods[operation.method], described)
            methods[operation.method] = described
    return paths


def _open(schema: Any, others: str) -> Any:
    """Return a schema whose objects may have members that are not named; ``others`` says so."""
    if isinstance(schema, list):
        return [_open(each, others) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _open(value, others) for name, value in schema.items()}
    if made.get("additionalProperties") is False:
        del made["additionalProperties"]
    about = made.get("description")
    if isinstance(about, str) and about.endswith(OTHERS_ARE_REFUSED):
        made["description"] = about.removesuffix(OTHERS_ARE_REFUSED) + others
    return made


def _merged(*groups: Mapping[str, Schema]) -> dict[str, Schema]:
    """Join groups of schemas; no two different ones may have the same name."""
    merged: dict[str, Schema] = {}
    for group in groups:
        twice = sorted(name for name in merged.keys() & group if merged[name] != group[name])
        if twice:
            raise ValueError(f"different schemas with one name: {twice}")
        merged.update(group)
    return merged
