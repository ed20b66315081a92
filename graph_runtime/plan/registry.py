"""Registries: calculators, subgraphs, input stream handlers and executors by name.

Registration is explicit: the decorator `calculator`, a `Registry` method, or an entry point of the
group ``graphrt.calculators``, which names a function that takes the registry, or a module whose
import registers. Entry points are loaded when a name is not found without them.

A name may have a namespace (``acme.Redact``; ``::`` is the same as ``.``) and is found by exactly
the name it was registered under, or relative to the ``package`` of the graph.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar, overload
from weakref import WeakValueDictionary

from graph_runtime.authoring.calculator import Calculator, function_calculator
from graph_runtime.authoring.executor import Executor
from graph_runtime.errors import Code, GraphError, NotFoundError, did_you_mean, reason_of
from graph_runtime.language.text_parser import type_sources
from graph_runtime.options.isolated_modules import new_package_name, own_name
from graph_runtime.plan.resources import ResourceInitializer
from graph_runtime.plan.subgraph import Subgraph
from graph_runtime.streams.input_handlers.handler import InputStreamHandler
from graph_runtime.streams.input_handlers.policies import (
    BarrierInputStreamHandler,
    DefaultInputStreamHandler,
    EarlyCloseInputStreamHandler,
    FixedSizeInputStreamHandler,
    ImmediateInputStreamHandler,
    MuxInputStreamHandler,
    TimestampAlignInputStreamHandler,
)
from graph_runtime.streams.input_handlers.sync_set import SyncSetInputStreamHandler
from graphrt_base.interrupts import raise_interrupt

ENTRY_POINT_GROUP: Final = "graphrt.calculators"

T = TypeVar("T")
C = TypeVar("C", bound=type[Calculator])
#: A class of resource initializers.
R = TypeVar("R", bound=Callable[[], ResourceInitializer])

#: Makes an executor from its ``ExecutorConfig.options`` (a MediaPipeOptions message).
ExecutorFactory = Callable[[Any], Executor]


def _key(name: str) -> str:
    return name.replace("::", ".").lstrip(".")


class _Table(dict[str, T]):
    """The registrations of one kind. Registering the same thing again is fine, another is not."""

    def __init__(self, kind: str, items: Mapping[str, T] | None = None) -> None:
        super().__init__(items or {})
        self.kind = kind

    def add(self, name: str, thing: T) -> None:
        key = _key(name)
        present = self.get(key)
        if present is not None and present is not thing and not _is_reload(present, thing):
            raise _name_taken_error(self.kind, name, present, thing)
        self[key] = thing

    def find(self, name: str, package: str) -> T | None:
        if name.startswith((".", "::")):
            return self.get(_key(name))
        # As in C++: the innermost namespace first.
        prefix = _key(package)
        while prefix:
            found = self.get(f"{prefix}.{_key(name)}")
            if found is not None:
                return found
            prefix = prefix.rpartition(".")[0]
        return self.get(_key(name))


def _place(thing: object) -> str:
    module = own_name(getattr(thing, "__module__", "?"))
    return f"{module}.{getattr(thing, '__qualname__', thing)}"


def _is_reload(old: object, new: object) -> bool:
    """Return True for the same definition imported again, as when a module is reloaded.

    Two definitions of one name in a module that is being imported are a slip.
    """
    if not isinstance(old, type) or _place(old) != _place(new):
        return False
    module = sys.modules.get(old.__module__)
    is_importing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    functions = (getattr(each, "__wrapped__", each) for each in vars(old).values())
    scopes = (getattr(getattr(each, "__func__", each), "__globals__", None) for each in functions)
    return not (is_importing and any(each is vars(module) for each in scopes))


def _name_taken_error(kind: str, name: str, present: object, thing: object) -> GraphError:
    if _place(present) == _place(thing):
        return GraphError(
            f'{kind} "{name}" is defined twice in {own_name(getattr(thing, "__module__", "?"))}: '
            f"each needs its own name",
            code=Code.ALREADY_EXISTS,
        )
    return GraphError(
        f'{kind} "{name}" is already registered as {_place(present)}; '
        f"{_place(thing)} needs another name",
        code=Code.ALREADY_EXISTS,
    )


class _Family:
    """A family that `Registry.register_family` has added."""

    def __init__(self, has: Callable[[str], bool], register: Callable[[Registry], None]) -> None:
        self.has = has
        self.register = register
        #: True as soon as loading has begun: what it registers looks for its own names.
        self.is_loaded = False


class Registry:
    """The names that graphs can use. ``Registry(parent)`` adds to another one without changing it.

    Attributes:
        failed_entry_points: reasons why entry points could not be loaded, by name.
        failed_modules: the same for modules that should have registered here, by file.
    """

    def __init__(self, parent: Registry | None = None, *, hides_parent: bool = True) -> None:
        """Make a registry. ``hides_parent``: its calculators may have names that ``parent`` has."""
        self._parent = parent
        self._hides_parent = hides_parent
        self._calculators: _Table[type[Calculator]] = _Table("calculator")
        self._subgraphs: _Table[Subgraph] = _Table("subgraph")
        self._handlers: _Table[type[InputStreamHandler]] = _Table("input stream handler")
        self._executors: _Table[ExecutorFactory] = _Table("executor")
        self._status_handlers: _Table[Callable[..., None]] = _Table("status handler")
        self._resource_initializers: list[ResourceInitializer] = []
        self._families: list[_Family] = []
        self._loading_families = threading.RLock()
        self._loads_entry_points = False
        self._former_names: dict[str, str] = {}
        self.failed_entry_points: dict[str, str] = {}
        self.failed_modules: dict[str, str] = {}

    # Registering ----------------------------------------------------------------------------------

    def register_calculator(
        self, calculator: type[Calculator] | Callable[..., Any], *names: str
    ) -> type[Calculator]:
        """Register a class or a plain function (see `function_calculator`) under names or its own.

        Raises:
            GraphError: the name is taken (ALREADY_EXISTS), or ``calculator`` is none.
        """
        if not isinstance(calculator, type):
            if not callable(calculator):
                raise GraphError(
                    f"{calculator!r} is not a calculator: a class or a function is needed",
                    code=Code.INVALID_ARGUMENT,
                )
            cls = function_calculator(calculator)
        elif issubclass(calculator, Calculator):
            cls = calculator
        else:
            raise GraphError(
                f"{calculator.__qualname__} is not a calculator: it must inherit from "
                f"graph_runtime.Calculator",
                code=Code.INVALID_ARGUMENT,
            )
        for name in names or (cls.__name__,):
            self._load_families(name)
            self._refuse_hiding(name, cls)
            self._calculators.add(name, cls)
        return cls

    def register_subgraph(self, graph: Any, name: str | None = None) -> None:
        """Register a graph as a node type: a config message, text, or a function that makes either.

        The function is called with the `SubgraphContext` of the node. The name is the config's
        ``type`` unless it is given.
        """
        subgraph = Subgraph.of(graph, name)
        self._subgraphs[_key(subgraph.name)] = subgraph

    def register_former_name(self, name: str, present: str) -> None:
        """Remember that a node type is called otherwise now, for the error of a graph with it."""
        self._former_names[name] = present

    def register_input_stream_handler(
        self, handler: type[InputStreamHandler], name: str | None = None
    ) -> None:
        """Register an input stream handler, under ``name`` or its class's name."""
        self._handlers.add(name or handler.__name__, handler)

    def register_executor(self, name: str, factory: ExecutorFactory) -> None:
        """Register an executor type for ``executor { type: name }``."""
        self._executors.add(name, factory)

    def register_status_handler(self, name: str, handler: Callable[..., None]) -> None:
        """Register a function for ``status_handler { status_handler: name }``.

        It is called as ``handler(phase, error, side_packets, options)``: ``phase`` is "PRE_RUN" or
        "POST_RUN", ``error`` the run's error or None. It is not called when one of its input side
        packets is missing, which is an error of the run. Before the run it must not use the graph,
        which is just being started.
        """
        self._status_handlers.add(name, handler)

    def register_resource_initializer(self, initializer: ResourceInitializer) -> None:
        """Register an initializer for the nodes of a family (see `graph_runtime.plan.resources`).

        Of initializers of one type, only the first counts.
        """
        if all(type(initializer) is not type(each) for each in self._resource_initializers):
            self._resource_initializers.append(initializer)

    # By names: registering every family at the start took 1,133 modules for a graph of one language
    # model (decision 0066).
    def register_family(
        self, has: Callable[[str], bool], register: Callable[[Registry], None]
    ) -> None:
        """Register calculators and subgraphs whose modules are imported when they are wanted.

        Args:
            has: returns whether the family has, or makes resources for, the nodes of a type.
            register: registers all that the family has. It is called once, when a graph names such
                a type, another one registers its name, or all names are asked for.
        """
        self._families.append(_Family(has, register))

    # Finding --------------------------------------------------------------------------------------

    def find_calculator(self, name: str, package: str = "") -> type[Calculator] | None:
        """Return the calculator that a graph of this package names, or None."""
        found: type[Calculator] | None = self._find("_calculators", name, package)
        return found

    def find_subgraph(self, name: str, package: str = "") -> Subgraph | None:
        """Return the subgraph that a graph of this package names, or None."""
        found: Subgraph | None = self._find("_subgraphs", name, package)
        return found

    def find_input_stream_handler(
        self, name: str, package: str = ""
    ) -> type[InputStreamHandler] | None:
        """Return the input stream handler that a graph of this package names, or None."""
        found: type[InputStreamHandler] | None = self._find("_handlers", name, package)
        return found

    def find_executor(self, name: str, package: str = "") -> ExecutorFactory | None:
        """Return the executor type that a graph of this package names, or None."""
        found: ExecutorFactory | None = self._find("_executors", name, package)
        return found

    def find_status_handler(self, name: str, package: str = "") -> Callable[..., None] | None:
        """Return the status handler that a graph of this package names, or None."""
        found: Callable[..., None] | None = self._find("_status_handlers", name, package)
        return found

    def calculators(self) -> dict[str, type[Calculator]]:
        """Return all registered calculators by name, sorted, with the ones from entry points."""
        self.load_all()
        inherited = self._parent.calculators() if self._parent is not None else {}
        return dict(sorted({**inherited, **self._calculators}.items()))

    def registrations(self) -> int:
        """Return how many things are registered here, without the parent's."""
        graphs = len(self._calculators) + len(self._subgraphs) + len(self._resource_initializers)
        return graphs + len(self._handlers) + len(self._executors) + len(self._status_handlers)

    def loaded_calculators(self) -> dict[str, type[Calculator]]:
        """Return the calculators that are registered by now, by name; loads nothing."""
        inherited = self._parent.loaded_calculators() if self._parent is not None else {}
        return {**inherited, **self._calculators}

    def subgraphs(self) -> dict[str, Subgraph]:
        """Return all registered subgraphs by name."""
        self.load_all()
        inherited = self._parent.subgraphs() if self._parent is not None else {}
        return dict(sorted({**inherited, **self._subgraphs}.items()))

    def resource_initializers(self) -> list[ResourceInitializer]:
        """Return all resource initializers, in order of registration; of each type the first.

        A family is missing until a graph names one of its nodes.
        """
        self.load_entry_points()
        inherited = self._parent.resource_initializers() if self._parent is not None else []
        types = {type(each) for each in inherited}
        return [
            *inherited,
            *(each for each in self._resource_initializers if type(each) not in types),
        ]

    def names_like(self, name: str) -> str:
        """A did-you-mean hint of calculators and subgraphs, or a hint at failed imports."""
        names = [*self.calculators(), *self.subgraphs()]
        registry: Registry | None = self
        while registry is not None:
            if (present := registry._former_names.get(name)) is not None:
                return f' It is called "{present}" now.'
            registry = registry._parent
        # Nearly all names end in "Calculator": with it they look alike, or too long for a slip.
        hint = did_you_mean(name, names, key=lambda each: each.removesuffix("Calculator"))
        points, modules = self._failures()
        if points:
            hint += f" (entry points that failed to load: {_listed(points)})"
        if modules:
            hint += f" (modules that failed to import: {_listed(modules)})"
        return hint

    def input_stream_handlers(self) -> list[str]:
        """Return the names of all input stream handlers, sorted."""
        inherited = self._parent.input_stream_handlers() if self._parent is not None else []
        return sorted({*inherited, *self._handlers})

    def _failures(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the failures of entry points and of modules, here and in the parents."""
        points, modules = self._parent._failures() if self._parent is not None else ({}, {})
        return {**points, **self.failed_entry_points}, {**modules, **self.failed_modules}

    def _refuse_hiding(self, name: str, cls: type[Calculator]) -> None:
        if self._parent is None or self._hides_parent:
            return
        present = self._parent.find_calculator(f".{_key(name)}")
        if present is not None and present is not cls:
            raise _name_taken_error("calculator", name, present, cls)

    def _find(self, table: str, name: str, package: str) -> Any:
        registry: Registry | None = self
        while registry is not None:
            registry._load_families(_key(name))
            found = getattr(registry, table).find(name, package)
            if found is not None:
                return found
            registry = registry._parent
        if self.load_entry_points():
            return self._find(table, name, package)
        return None

    # Families and entry points --------------------------------------------------------------------

    def _load_families(self, name: str | None = None) -> bool:
        """Load the families that have a name, or all; True when this call loaded one."""
        has_loaded = False
        for family in list(self._families):
            if name is not None and not family.has(name):
                continue
            # A thread that wants what another one is loading has to wait for it.
            with self._loading_families:
                if family.is_loaded:
                    continue
                family.is_loaded = has_loaded = True
                family.register(self)
                self._families.remove(family)
        return has_loaded

    def load_all(self) -> bool:
        """Load all families and, once, the entry points; True when this call loaded any."""
        has_loaded = self._parent.load_all() if self._parent is not None else False
        has_loaded |= self.load_entry_points()
        return self._load_families() or has_loaded

    def enable_entry_points(self) -> None:
        """Look up unknown names in the entry points of installed packages too."""
        self._loads_entry_points = True

    def load_entry_points(self) -> bool:
        """Load the entry points once; True when this call did."""
        if self._parent is not None:
            return self._parent.load_entry_points()
        if not self._loads_entry_points:
            return False
        self._loads_entry_points = False
        for point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                loaded = point.load()
                if not inspect.ismodule(loaded):
                    loaded(self)
            except BaseException as error:
                raise_interrupt(error)
                # One broken package must not take the others with it. A graph that misses its
                # calculators gets this reason in its error.
                self.failed_entry_points[point.name] = reason_of(error)
        return True


def _listed(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in failures.items())


def _core_registry() -> Registry:
    registry = Registry()
    for handler in (
        DefaultInputStreamHandler,
        SyncSetInputStreamHandler,
        ImmediateInputStreamHandler,
        BarrierInputStreamHandler,
        EarlyCloseInputStreamHandler,
        FixedSizeInputStreamHandler,
        MuxInputStreamHandler,
        TimestampAlignInputStreamHandler,
    ):
        registry.register_input_stream_handler(handler)
    registry.enable_entry_points()
    type_sources.append(registry.load_all)
    return registry


#: The registry of graphs that are not given another one.
REGISTRY: Final = _core_registry()


@overload
def calculator(target: C, /) -> C: ...
@overload
def calculator(target: Callable[..., Any], /) -> type[Calculator]: ...
@overload
def calculator(*names: str, registry: Registry | None = None) -> Callable[[T], T]: ...
def calculator(*args: Any, registry: Registry | None = None) -> Any:
    """Register a class or function: ``@calculator`` or ``@calculator("acme.Redact")``.

    A function stays what it is, so it can still be called and tested. Without ``registry`` it is
    `REGISTRY`, or the module's own registry if it is in an isolated package (`new_package`).
    """

    def where(target: Any) -> Registry:
        return registry or _owner_of(getattr(target, "__module__", None) or "") or REGISTRY

    if len(args) == 1 and not isinstance(args[0], str):
        where(args[0]).register_calculator(args[0])
        return args[0]

    def register(target: Any) -> Any:
        where(target).register_calculator(target, *args)
        return target

    return register


def resource_initializer(target: R) -> R:
    """Register a class of `ResourceInitializer`: ``@resource_initializer``.

    The class is called without arguments. It is registered where `calculator` registers.
    """
    registry = _owner_of(getattr(target, "__module__", None) or "") or REGISTRY
    registry.register_resource_initializer(target())
    return target


_package_registries: WeakValueDictionary[str, Registry] = WeakValueDictionary()


def new_package(registry: Registry) -> str:
    """A name for a package whose modules register in ``registry``, for as long as that exists."""
    name = new_package_name()
    _package_registries[name] = registry
    return name


def _owner_of(module: str) -> Registry | None:
    """Return the registry of an isolated package; None for ordinary modules."""
    return _package_registries.get(module.partition(".")[0])


def unknown_calculator(name: str, registry: Registry) -> NotFoundError:
    """Return the error for a node whose type is not registered."""
    return NotFoundError(
        f"No registered object with name: {name.replace('.', '::')}; Unable to find Calculator "
        f'"{name}".{registry.names_like(name)}'
    )
