"""The executors that a graph declares, checked (MediaPipe ``validated_graph_config.cc``)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from graph_runtime.authoring.executor import too_few_threads
from graph_runtime.errors import GraphConfigError, GraphError, NotFoundError, ValidationError
from graph_runtime.plan.plan import ExecutorPlan
from graph_runtime.streams.input_handlers.handler import read_options
from protos import messages

if TYPE_CHECKING:
    from graph_runtime.plan.registry import Registry

APPLICATION_THREAD = "ApplicationThreadExecutor"
THREAD_POOL = "ThreadPoolExecutor"


def is_reserved_executor_name(name: str) -> bool:
    """Return True for names that graphs may not use."""
    return name in ("default", "gpu") or name.startswith("__")


def plan_executors(
    config: Any, registry: Registry, provided: Collection[str] = ()
) -> dict[str, ExecutorPlan]:
    """Return the executors by name; the default one, "", is always there.

    ``provided``: names of those that the application gives the graph itself.

    ``num_threads`` of the graph is moved into the default executor of ``config``.

    Raises:
        ValidationError: a name is reserved, repeated or of an unknown type; with every finding.
    """
    plans: dict[str, ExecutorPlan] = {}
    findings: list[GraphError] = []
    for executor in config.executor:
        name = executor.name
        try:
            if is_reserved_executor_name(name):
                raise GraphConfigError(f'"{name}" is a reserved executor name.')
            if name in plans:
                what = f'"{name}"' if name else "the default executor"
                raise GraphConfigError(f"ExecutorConfig for {what} is duplicate.")
            plans[name] = _plan(executor, registry, config.package, provided)
        except GraphError as error:
            findings.append(error)
    if config.num_threads:
        if "" in plans:
            findings.append(
                GraphConfigError(
                    "ExecutorConfig for the default executor and the graph-level num_threads field "
                    "should not both be specified."
                )
            )
        elif config.num_threads < -1:
            findings.append(GraphConfigError(too_few_threads(config.num_threads)))
        else:
            plans[""] = ExecutorPlan("", THREAD_POOL, config.num_threads)
            _set_num_threads(config, registry)
    if findings:
        raise ValidationError(findings)
    if "" not in plans:
        plans[""] = ExecutorPlan("", "")
        # MediaPipe's canonical form has an entry for the default executor.
        config.executor.add()
    return plans


def _set_num_threads(config: Any, registry: Registry) -> None:
    """Replace the graph's ``num_threads`` by its canonical form, an executor with options."""
    from protos.pool import find_extension

    extension = find_extension(f"{messages.ThreadPoolExecutorOptions.DESCRIPTOR.full_name}.ext")
    options = config.executor.add().options
    options.Extensions[extension].num_threads = config.num_threads
    config.num_threads = 0


def _plan(
    executor: Any, registry: Registry, package: str, provided: Collection[str]
) -> ExecutorPlan:
    name, kind = executor.name, executor.type
    if not kind:
        if name:
            if name not in provided:
                raise GraphConfigError(
                    f'ExecutorConfig for "{name}" does not have a "type" field. The executor '
                    f'"{name}" must be provided to the graph with a '
                    "CalculatorGraph::SetExecutor() call.\nhint: pass executors={...} when making "
                    "the graph"
                )
            return ExecutorPlan(name, "")
        # The form that MediaPipe gives the graph's ``num_threads``.
        if executor.HasField("options"):
            kind = THREAD_POOL
        else:
            return ExecutorPlan(name, "")
    if kind == APPLICATION_THREAD:
        return ExecutorPlan(name, kind)
    if kind == THREAD_POOL:
        options = read_options(executor.options, messages.ThreadPoolExecutorOptions)
        if not options.HasField("num_threads"):
            raise GraphConfigError("num_threads is not specified in ThreadPoolExecutorOptions.")
        threads = options.num_threads
        # -1, the automatic number, is for the default executor only, as in MediaPipe.
        if threads < 1 and not (threads == -1 and not name):
            raise GraphConfigError(too_few_threads(threads))
        return ExecutorPlan(name, kind, threads, options.thread_name_prefix)
    if registry.find_executor(kind, package) is None:
        raise NotFoundError(
            f'No registered object with name: {kind}; "{kind}" is not a registered executor; it '
            f"may be {THREAD_POOL} or {APPLICATION_THREAD}, or one registered with "
            f"Registry.register_executor"
        )
    return ExecutorPlan(name, kind, options=executor.options)
