"""The base class of calculators, and plain functions as calculators."""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from graph_runtime.authoring.ports import In, Out, check_ports, ports_of
from graph_runtime.errors import Code, GraphError, PacketTypeError, reason_of
from graph_runtime.options.options import is_options_type
from graphrt_base.annotations import resolved
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.authoring.contract import CalculatorContract, PortKey

T = TypeVar("T")


class Stop(Exception):
    """Ends a source, or the graph; raised by ``process``. MediaPipe's ``StatusStop``.

    Raised by a source, it closes the source. Raised by any other node, it closes all sources and
    lets the graph process the packets under way.
    """


class Options(Generic[T]):
    """The node's options as an attribute: ``options = Options(RedactOptions)``.

    Takes an options dataclass, a protobuf message class, or the full name of a message type.
    """

    @overload
    def __init__(self, options_type: type[T]) -> None: ...
    @overload
    def __init__(self: Options[Any], options_type: str) -> None: ...
    def __init__(self, options_type: Any) -> None:
        is_name = isinstance(options_type, str)
        self.options_type: Any = options_type if is_name else resolved(options_type)
        self._slot = "_options"

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}_value"

    @overload
    def __get__(self, instance: None, owner: type) -> Options[T]: ...
    @overload
    def __get__(self, instance: Calculator, owner: type) -> T: ...
    def __get__(self, instance: Calculator | None, owner: type) -> Any:
        if instance is None:
            return self
        try:
            return instance.__dict__[self._slot]
        except KeyError:
            raise GraphError(
                f"{owner.__name__}: options are there from open() on, not in __init__"
            ) from None

    def bind(self, instance: Calculator, value: T) -> None:
        """Give an instance its options."""
        instance.__dict__[self._slot] = value


class Calculator:
    """One kind of node. An instance is made for each run of each node, with no arguments.

    ``contract`` (or typed ports, see `graph_runtime.authoring.ports`) says what the node needs;
    ``open`` is called once, then ``process`` once per input set, then ``close``: exactly if
    ``open`` succeeded, and also after errors. They may be coroutines. Calls of one instance do not
    overlap unless the graph says ``max_in_flight > 1``, but the thread may change between calls.

    Class attributes for what a contract says most often:
        timestamp_offset: 0 (the default with typed ports): every call settles its timestamp on all
            outputs. None: nothing is promised beyond packets and explicit bounds.
        process_timestamp_bounds: call ``process`` for settled timestamps without packets too.
        input_stream_handler: name of the handler this calculator is written for.
        sync_sets: inputs that a call waits for together, such as ``(("LOOPBACK",),)``; the inputs
            that no set names form one more. A graph then needs neither an input stream handler
            for the node nor ``back_edge`` for an input that is alone in its set.
        settles_outputs: every call settles all outputs, by bounds that it sets itself. Only checks
            of graphs read it.
        chooses_output: every packet that comes goes on by one output, and the others stay silent.
            Only checks of graphs read it.

    Source: MediaPipe ``framework/calculator_base.h``, ``api2/node.h``.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Check what Python would find only when a graph runs.

        Raises:
            GraphError: a method has MediaPipe's name, does not take the context, or yields; or a
                port is a type.
        """
        super().__init_subclass__(**keywords)
        check_ports(cls)
        for name, value in vars(cls).items():
            if name in _CXX_METHODS and inspect.isfunction(value):
                meant = _CXX_METHODS[name]
                if not hasattr(cls, meant) or getattr(cls, meant) is getattr(Calculator, meant):
                    raise _wrong_method(cls, name, f"is never called: its name is {meant} here")
            elif name in _METHODS and inspect.isfunction(value):
                _check_method(cls, name, value)

    timestamp_offset: ClassVar[int | None] = 0
    process_timestamp_bounds: ClassVar[bool] = False
    input_stream_handler: ClassVar[str] = ""
    sync_sets: ClassVar[tuple[tuple[PortKey, ...], ...]] = ()
    settles_outputs: ClassVar[bool] = False
    chooses_output: ClassVar[bool] = False

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        """Declare the ports. The default declares the class's typed ports and attributes."""
        for port in ports_of(cls):
            port.declare(contract)
        contract.timestamp_offset = cls.timestamp_offset
        contract.process_timestamp_bounds = cls.process_timestamp_bounds
        contract.input_stream_handler = cls.input_stream_handler
        contract.sync_sets = cls.sync_sets
        cls.update_contract(contract)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        """Adjust what the typed ports say, knowing the node."""

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        """Called once, before any ``process``; ``cc.input_timestamp`` is UNSTARTED."""
        return None

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        """Called for every input set. A source raises `Stop` when it has nothing more."""
        raise NotImplementedError(f"{type(self).__name__} has no process()")

    def on_idle(self, cc: CalculatorContext) -> Awaitable[None] | None:
        """Called when nothing runs or can run, before the run ends with this node still open.

        The graph's inputs have ended, so nothing more can come; there are no input packets. Packets
        that are sent here, at times of their own, keep the run going. Nodes upstream are called
        first, and a node again only after a further ``process``. A MediaPipe graph ends without
        such a call.
        """
        return None

    def close(self, cc: CalculatorContext) -> Awaitable[None] | None:
        """Called once, last; ``cc.input_timestamp`` is DONE. Packets may still be sent."""
        return None

    def source_process_order(self, cc: CalculatorContext) -> int:
        """Priority of a source; smaller values run first. Default: the smallest output bound."""
        return min((shard.next_timestamp_bound for shard in cc.output_list), default=0)


_METHODS: Final = ("open", "process", "on_idle", "close")
_CXX_METHODS: Final = {name.capitalize(): name for name in ("open", "process", "close")}


def _check_method(cls: type, name: str, method: types.FunctionType) -> None:
    code = method.__code__
    positional = code.co_argcount
    least = positional - len(method.__defaults__ or ())
    takes_more = bool(code.co_flags & inspect.CO_VARARGS)
    if least > 2 or (positional < 2 and not takes_more):
        names = ", ".join(code.co_varnames[:positional])
        raise _wrong_method(cls, name, f"takes ({names}), and is called with the context")
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise _wrong_method(cls, name, "has a yield: packets are sent with cc.emit(self.port, ...)")


def _wrong_method(cls: type, name: str, problem: str) -> GraphError:
    meant = _CXX_METHODS.get(name, name)
    return GraphError(
        f"{cls.__qualname__}.{name} {problem}: write def {meant}(self, cc)",
        code=Code.INVALID_ARGUMENT,
    )


def options_of(cls: type[Calculator]) -> list[Options[Any]]:
    """Return the options descriptors of a calculator class."""
    found = {
        name: value
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, Options)
    }
    return list(found.values())


def function_calculator(function: Callable[..., Any]) -> type[Calculator]:
    """A calculator class from a plain function, ``def`` or ``async def``.

    Positional parameters are untagged inputs in their order; keyword-only ones are tagged with
    their name in capitals; a parameter annotated with an options type receives the node's options;
    one with a default is optional, and gets the default when there is no packet. The result is sent
    at the input timestamp. A tuple annotation declares several untagged outputs, the annotation
    None declares none. The value None sends no packet if the annotation allows it
    (``-> str | None``). ``Any`` accepts every type.

    Raises:
        GraphError: a parameter or the result has no annotation, or cannot be a port.
    """
    try:
        hints = {name: resolved(hint) for name, hint in get_type_hints(function).items()}
    except BaseException as error:
        raise_interrupt(error)
        raise GraphError(
            f"{function.__qualname__}: its annotations cannot be read: {reason_of(error)}",
            code=Code.INVALID_ARGUMENT,
        ) from error
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise GraphError(
            f"{function.__qualname__}: a function sends what it returns, once for each packet, and "
            f"this one has a yield: return the value, or write a Calculator class, whose process "
            f"sends any number of packets with cc.emit(self.port, value, at=time)",
            code=Code.INVALID_ARGUMENT,
        )
    namespace: dict[str, Any] = {"__doc__": function.__doc__, "__module__": function.__module__}
    inputs: list[tuple[str, str, Any]] = []
    options: list[tuple[str, str]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise GraphError(
                f"{function.__qualname__}: parameter {name} cannot be a port (it is variadic or "
                f"positional-only); write a Calculator class, where a port can have multiple=True"
            )
        if name not in hints:
            raise GraphError(
                f"{function.__qualname__}: the parameter {name} has no annotation, which says what "
                f"the input carries: write {name}: str, or {name}: Any for packets of every type",
                code=Code.INVALID_ARGUMENT,
            )
        hint = hints[name]
        if is_options_type(hint):
            namespace[f"options_{name}"] = Options(hint)
            options.append((name, f"options_{name}"))
            continue
        has_default = parameter.default is not parameter.empty
        is_keyword = parameter.kind is parameter.KEYWORD_ONLY
        port: In[Any] = In(name.upper() if is_keyword else "", optional=has_default)
        port.packet_spec = _without_none(hint) if has_default else hint
        namespace[f"in_{name}"] = port
        inputs.append((name, f"in_{name}", parameter.default if has_default else _REQUIRED))
    if "return" not in hints:
        raise GraphError(
            f"{function.__qualname__}: the result has no annotation, which says what the output "
            f"carries: write -> str, -> Any for packets of every type, or -> None for no output",
            code=Code.INVALID_ARGUMENT,
        )
    declared = hints["return"]
    outputs = _output_specs(declared)
    is_several = len(outputs) > 1 or _is_fixed_tuple(_without_none(declared))
    may_be_none = [_allows_none(each) for each in _parts(declared)]
    for place, spec in enumerate(outputs):
        out: Out[Any] = Out()
        out.packet_spec = spec
        namespace[f"out_{place}"] = out

    def arguments(self: Any, cc: CalculatorContext) -> dict[str, Any] | None:
        call = {name: getattr(self, attribute) for name, attribute in options}
        for name, attribute, default in inputs:
            value = cc.get(getattr(self, attribute), default)
            if value is _REQUIRED:
                return None
            call[name] = value
        return call

    def send(self: Any, cc: CalculatorContext, result: Any) -> None:
        if not outputs or (result is None and _allows_none(declared)):
            return
        if not is_several:
            result = (result,)
        elif not isinstance(result, tuple) or len(result) != len(outputs):
            raise _not_declared(function, declared, f"a tuple of {len(outputs)} values is needed")
        for place, value in enumerate(result):
            if value is not None:
                try:
                    cc.emit(getattr(self, f"out_{place}"), value)
                except PacketTypeError as error:
                    raise _not_declared(function, declared, str(error)) from None
            elif not may_be_none[place]:
                what = f"None as value {place + 1}" if is_several else "None"
                raise _not_declared(
                    function,
                    declared,
                    f"it returned {what}; None stands for no packet where the annotation allows "
                    f"it, as in `str | None`",
                )

    def process(self: Any, cc: CalculatorContext) -> None:
        call = arguments(self, cc)
        if call is not None:
            send(self, cc, function(**call))

    async def process_async(self: Any, cc: CalculatorContext) -> None:
        call = arguments(self, cc)
        if call is not None:
            send(self, cc, await function(**call))

    process_async.__name__ = "process"  # the name in traces
    namespace["process"] = process_async if inspect.iscoroutinefunction(function) else process
    namespace["function"] = staticmethod(function)
    return types.new_class(
        function.__name__, (Calculator,), exec_body=lambda ns: ns.update(namespace)
    )


_REQUIRED: Any = object()


def _not_declared(function: Callable[..., Any], declared: Any, reason: str) -> PacketTypeError:
    shown = inspect.formatannotation(declared)
    return PacketTypeError(
        f"the function {function.__qualname__} is declared `-> {shown}`: {reason}"
    )


def _allows_none(hint: Any) -> bool:
    if hint is Any or hint is object or hint is None or hint is type(None):
        return True
    return get_origin(hint) in (Union, types.UnionType) and any(
        _allows_none(each) for each in get_args(hint)
    )


def _is_fixed_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple and Ellipsis not in get_args(hint)


def _parts(hint: Any) -> list[Any]:
    """Return the annotation of each output."""
    bare = _without_none(hint)
    return list(get_args(bare)) if _is_fixed_tuple(bare) else [hint]


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        rest = tuple(arg for arg in get_args(hint) if arg is not type(None))
        return Union[rest] if rest else Any  # noqa: UP007
    return hint


def _output_specs(hint: Any) -> list[Any]:
    if hint is None or hint is type(None):
        return []
    hint = _without_none(hint)
    if _is_fixed_tuple(hint):
        return [_without_none(arg) for arg in get_args(hint)]
    return [hint]
