"""`ServeOptions`: the parsed arguments of `graphrt serve` as typed settings."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from calculators.kit.settings.declaration import SettingError, given_fields, read, values_of
from calculators.kit.tasks import settings_of_tasks
from calculators.kit.tasks.task import DeviceOptions
from graph_runtime import FamilySettings
from servers.cli.config_file import config_of_repository
from servers.cli.messages import CommandFailed
from servers.options.model_options import (
    ExportOptions,
    ModelOptions,
    RepositoryOptions,
    SourceOptions,
    task_options,
)
from servers.options.server_options import (
    BatchOptions,
    GraphOptions,
    GrpcOptions,
    HttpOptions,
    LifecycleOptions,
    PageOptions,
    ServerOptions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `graphrt serve`, one member per declaration.

    Attributes:
        sources: the positional arguments: models, graphs or one config.json.
        source, repository, export: options of models of a hub, and of their export.
        task: the value of ``--task``, or None.
        of_task, of_model: the options of tasks and of `ModelOptions` that are given, by flag.
        families: the settings of every family of calculators.
    """

    sources: tuple[str, ...]
    server: ServerOptions
    http: HttpOptions
    grpc: GrpcOptions
    page: PageOptions
    batches: BatchOptions
    source: SourceOptions
    repository: RepositoryOptions
    export: ExportOptions
    task: str | None
    of_task: dict[str, Any]
    of_model: dict[str, Any]
    graphs: GraphOptions
    lifecycle: LifecycleOptions
    families: FamilySettings

    @property
    def of_export(self) -> tuple[str, ...]:
        """The flags about exports that are given."""
        return tuple(field for field, value in values_of(self.export).items() if value)

    @property
    def of_plain_model(self) -> dict[str, Any]:
        """The options for a plain model that are given."""
        return {**self.of_model, **given_fields(DeviceOptions, self.of_task)}


def serve_options(args: argparse.Namespace) -> ServeOptions:
    """Return the settings for parsed arguments.

    Raises:
        CommandFailed: a value cannot be used.
    """
    values = dict(vars(args))
    named = ("sources", "config_path", "model_path", "model_name", "source_model")
    if not any(values[each] for each in named):
        config = config_of_repository()
        values["config_path"] = None if config is None else str(config)
    flags = [each.flag for each in task_options()]
    of_task = {flag: values[flag] for flag in flags if values[flag] is not None}
    try:
        return ServeOptions(
            sources=tuple(args.sources),
            server=read(ServerOptions, values),
            http=read(HttpOptions, values),
            grpc=read(GrpcOptions, values),
            page=read(PageOptions, values),
            batches=read(BatchOptions, values),
            source=read(SourceOptions, values),
            repository=read(RepositoryOptions, values),
            export=read(ExportOptions, values),
            task=args.task,
            of_task=of_task,
            of_model=given_fields(ModelOptions, values),
            graphs=read(GraphOptions, values),
            lifecycle=read(LifecycleOptions, values),
            families=FamilySettings(*(read(kind, values) for kind in settings_of_tasks())),
        )
    except SettingError as error:
        raise CommandFailed(str(error)) from None
