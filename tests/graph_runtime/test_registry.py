"""Names that graphs can use: registering, finding, and packages that bring their own."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Code,
    Executor,
    GraphError,
    In,
    Out,
    Registry,
    ThreadPoolExecutor,
    ValidationError,
    calculator,
    resource_initializer,
)
from graph_runtime.plan.registry import ENTRY_POINT_GROUP, new_package
from graph_runtime.streams.input_handlers.policies import ImmediateInputStreamHandler
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import Double, Forward, one_node


def plus_one(value: int) -> int:
    return value + 1


@pytest.fixture
def empty() -> Registry:
    return Registry()


def test_the_decorator_registers_with_and_without_names(empty: Registry) -> None:
    @calculator("acme.First", "acme.Second", registry=empty)
    class Named(Calculator):
        pass

    @calculator(registry=empty)
    class Plain(Calculator):
        pass

    assert empty.calculators() == {"Plain": Plain, "acme.First": Named, "acme.Second": Named}


def test_a_decorated_function_can_still_be_called(empty: Registry) -> None:
    decorated = calculator("Increment", registry=empty)(plus_one)

    assert decorated is plus_one
    found = empty.find_calculator("Increment")
    assert found is not None
    assert issubclass(found, Calculator)


def test_a_name_belongs_to_one_thing(empty: Registry) -> None:
    empty.register_calculator(Double, "Twice")
    empty.register_calculator(Double, "Twice")

    with pytest.raises(GraphError, match=r"already registered as .*Double; .*Forward") as caught:
        empty.register_calculator(Forward, "Twice")
    assert caught.value.code is Code.ALREADY_EXISTS
    assert empty.find_calculator("Twice") is Double


def test_the_same_definition_may_be_registered_again(empty: Registry) -> None:
    def define() -> type[Calculator]:
        class Reloaded(Calculator):
            pass

        return Reloaded

    first, second = define(), define()
    empty.register_calculator(first)
    empty.register_calculator(second)
    assert empty.find_calculator("Reloaded") is second


@pytest.mark.parametrize("thing", [3, object(), int, dict])
def test_objects_that_are_not_calculators_are_refused(empty: Registry, thing: Any) -> None:
    with pytest.raises(GraphError, match="not a calculator") as caught:
        empty.register_calculator(thing)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_child_adds_to_its_parent_and_does_not_change_it(empty: Registry) -> None:
    empty.register_calculator(Double, "Calc")
    child = Registry(empty)
    child.register_calculator(Forward, "Calc")
    child.register_calculator(Forward, "Other")

    assert child.find_calculator("Calc") is Forward
    assert empty.find_calculator("Calc") is Double
    assert list(child.calculators()) == ["Calc", "Other"]
    assert list(empty.calculators()) == ["Calc"]


@pytest.mark.parametrize(
    ("name", "package", "found"),
    [
        ("Calc", "", "Calc"),
        ("acme.Calc", "", "acme.Calc"),
        ("acme::Calc", "", "acme.Calc"),
        ("::acme::Calc", "", "acme.Calc"),
        ("Calc", "acme", "acme.Calc"),
        ("Calc", "acme.text", "acme.text.Calc"),
        ("Calc", "acme::text::deep", "acme.text.Calc"),
        ("text.Calc", "acme", "acme.text.Calc"),
        (".Calc", "acme", "Calc"),
        ("Calc", "other", "Calc"),
        ("calc", "", None),
        ("text.Calc", "", None),
    ],
)
def test_names_are_looked_up_from_the_graphs_package_outward(
    empty: Registry, name: str, package: str, found: str | None
) -> None:
    for registered in ("Calc", "acme.Calc", "acme.text.Calc"):
        empty.register_calculator(type(registered, (Calculator,), {}), registered)

    cls = empty.find_calculator(name, package)
    assert (cls.__name__ if cls is not None else None) == found


def test_a_graph_of_a_package_finds_its_calculators(registry: Registry) -> None:
    registry.register_calculator(Double, "acme.text.Twice")
    graph = CalculatorGraph(
        text_config=one_node("text.Twice", graph='package: "acme"'), registry=registry
    )
    assert graph.plan.nodes[0].calculator_class is Double


def test_handlers_and_executors_can_be_registered(registry: Registry) -> None:
    class LastOnly(ImmediateInputStreamHandler):
        pass

    made: list[Any] = []

    def make_executor(given: Any) -> Executor:
        made.append(given)
        return ThreadPoolExecutor(1)

    registry.register_input_stream_handler(LastOnly)
    registry.register_executor("acme.Pool", make_executor)
    graph = CalculatorGraph(
        text_config=one_node(
            "Double",
            extra='executor: "pool" input_stream_handler { input_stream_handler: "LastOnly" }',
            graph='executor { name: "pool" type: "acme.Pool" }',
        ),
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 4, 0)
    graph.close()

    assert sink.values == [8]
    assert len(made) == 1
    assert "LastOnly" in registry.input_stream_handlers()


def test_a_child_can_be_forbidden_to_hide_names(empty: Registry) -> None:
    empty.register_calculator(Double, "Twice")
    child = Registry(empty, hides_parent=False)
    child.register_calculator(Double, "Twice")
    child.register_calculator(Forward)

    with pytest.raises(GraphError, match=r"already registered as .*Double; .*Forward") as caught:
        child.register_calculator(Forward, "Twice")
    assert caught.value.code is Code.ALREADY_EXISTS
    Registry(empty).register_calculator(Forward, "Twice")


class Family:
    """An initializer that makes nothing."""

    tag = "FAMILY"
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return False

    async def make(self, node: Any, settings: Any) -> Any:
        raise AssertionError("nothing matches")


def test_a_family_is_initialized_once_wherever_it_was_registered(empty: Registry) -> None:
    child = Registry(empty)
    child.register_resource_initializer(Family())
    empty.register_resource_initializer(first := Family())
    child.register_resource_initializer(Family())

    assert child.resource_initializers() == [first]


def test_a_module_of_an_author_registers_an_initializer_with_its_own_registry(
    empty: Registry,
) -> None:
    own = type("Own", (Family,), {"__module__": f"{new_package(empty)}.index"})
    assert resource_initializer(own) is own
    (found,) = empty.resource_initializers()
    assert type(found) is own
    assert found not in REGISTRY.resource_initializers()


# Entry points -------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry]:
    """Make a registry that finds these installed packages: objects by entry point."""

    def install(**points: Any) -> Registry:
        module = types.ModuleType("enginetest_plugins")
        for name, target in points.items():
            setattr(module, name, target)
        monkeypatch.setitem(sys.modules, module.__name__, module)

        def entry_points(*, group: str) -> list[EntryPoint]:
            assert group == ENTRY_POINT_GROUP
            return [EntryPoint(name, f"enginetest_plugins:{name}", group) for name in points]

        monkeypatch.setattr("graph_runtime.plan.registry.entry_points", entry_points)
        registry = Registry()
        registry.enable_entry_points()
        return registry

    return install


def test_unknown_names_are_searched_in_installed_packages(
    installed: Callable[..., Registry],
) -> None:
    calls: list[Registry] = []

    def register(registry: Registry) -> None:
        calls.append(registry)
        registry.register_calculator(Double, "plugin.Twice")

    registry = installed(plugin=register)
    registry.register_calculator(Forward)

    assert registry.find_calculator("Forward") is Forward
    assert calls == []
    assert registry.find_calculator("plugin.Twice") is Double
    assert registry.find_calculator("plugin.Twice.Not") is None
    assert calls == [registry]


def test_an_entry_point_may_be_a_module_whose_import_registers(
    installed: Callable[..., Registry],
) -> None:
    registry = installed(plugin=types.ModuleType("enginetest_registers_itself"))

    assert registry.find_calculator("Nothing") is None
    assert registry.failed_entry_points == {}


def test_a_child_finds_the_calculators_of_its_parents_packages(
    installed: Callable[..., Registry],
) -> None:
    parent = installed(plugin=lambda registry: registry.register_calculator(Double, "Twice"))

    assert Registry(parent).find_calculator("Twice") is Double
    assert list(parent.calculators()) == ["Twice"]


def test_a_package_that_fails_to_load_is_named_by_the_error_of_the_graph(
    installed: Callable[..., Registry],
) -> None:
    def broken(registry: Registry) -> None:
        raise ImportError("No module named 'openvino'")

    def good(registry: Registry) -> None:
        registry.register_calculator(Double)

    registry = installed(broken=broken, good=good)

    with pytest.raises(ValidationError) as caught:
        CalculatorGraph(text_config='node { calculator: "Doubel" }', registry=registry)
    assert 'Unable to find Calculator "Doubel". Did you mean "Double"?' in str(caught.value)
    assert "broken: ImportError: No module named 'openvino'" in str(caught.value)
    assert registry.find_calculator("Double") is Double


def test_packages_register_in_the_group_graphrt_calculators() -> None:
    points = importlib.metadata.entry_points(group="graphrt.calculators")
    assert "core" in points.names


def test_ports_of_a_registered_class_are_found_through_its_bases(registry: Registry) -> None:
    class Base(Calculator):
        value = In[int]()

    class Derived(Base):
        half = Out[float]()

        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.half, cc.get(self.value) / 2)

    registry.register_calculator(Derived)
    graph = CalculatorGraph(text_config=one_node("Derived"), registry=registry)
    sink = Sink(graph, "out")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 3, 0)
    graph.close()
    assert sink.values == [1.5]
