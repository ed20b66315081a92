"""Options of calculators: declared in Python or in .proto files, found on nodes, merged."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
from dataclasses import field
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import Message

from graph_runtime.errors import Code, GraphConfigError, GraphSyntaxError, PacketTypeError
from graph_runtime.language.graph_config import graph_to_text, parse_graph_text
from graph_runtime.options.options import (
    OptionsType,
    find_extension_options,
    find_options,
    has_options,
    is_options_type,
    merge_options,
    options,
)
from protos.pool import descriptor_set, message_class
from tests.protos.test_pool import options_file


class Mode(enum.StrEnum):
    FAST = "fast"
    THOROUGH = "thorough"


class Level(enum.IntEnum):
    LOW = -1
    HIGH = 10


class Reach(enum.Enum):
    FAST = "near"
    FAR = 2.5


@options("opttest.Rule")
class Rule:
    pattern: str
    weight: float = 0.5


@options("opttest.Redact")
class Redact:
    words: tuple[str, ...] = ()
    mask: str = "*"
    mode: Mode = Mode.FAST
    level: Level = Level.HIGH
    reach: Reach = Reach.FAR
    limit: int | None = None
    keep: bool = True
    ratio: float = 0.25
    salt: bytes = b"\0\xff"
    rule: Rule | None = None
    rules: list[Rule] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict, metadata={"number": 40})
    by_number: dict[int, Rule] = field(default_factory=dict)
    inner: tuple[Redact, ...] = ()

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise ValueError("limit must not be negative")


@options("opttest.Strict")
class Strict:
    path: str
    names: list[str]
    count: int = 3


def node(text: str) -> Any:
    return parse_graph_text(f'node {{ name: "n" calculator: "C" {text} }}').node[0]


def redact(text: str) -> Redact:
    return find_options(
        node(f"node_options {{ [type.googleapis.com/opttest.Redact] {{ {text} }} }}"), Redact
    )


class TestDeclaration:
    def test_a_declared_class_is_a_frozen_dataclass(self) -> None:
        assert Redact(mask="#").mask == "#"
        with pytest.raises(dataclasses.FrozenInstanceError):
            Redact().mask = "x"  # type: ignore[misc]

    def test_a_frozen_dataclass_is_kept(self) -> None:
        @options("opttest.Ready")
        @dataclasses.dataclass(frozen=True, kw_only=True)
        class Ready:
            count: int = 1

        assert find_options(node(""), Ready) == Ready(count=1)

    def test_a_mutable_dataclass_is_refused(self) -> None:
        with pytest.raises(GraphConfigError, match="frozen=True"):

            @options("opttest.Mutable")
            @dataclasses.dataclass
            class Mutable:
                count: int = 1

    def test_the_name_follows_from_the_package_and_the_class(self) -> None:
        @options
        class NamedByItsPlace:
            count: int = 1

        assert OptionsType.of(NamedByItsPlace).full_name == "tests.NamedByItsPlace"

    def test_the_same_declaration_again_replaces_the_class(self) -> None:
        for _ in range(2):

            @options("opttest.Reloaded")
            class Reloaded:
                count: int = 1
                mode: Mode = Mode.FAST

            text = "node_options { [t/opttest.Reloaded] { count: 2 } }"
            assert find_options(node(text), Reloaded) == Reloaded(count=2)

    def test_a_changed_declaration_is_refused(self) -> None:
        @options("opttest.Changing")
        class Before:
            count: int = 1

        with pytest.raises(GraphConfigError, match=r"opttest\.Changing cannot be declared"):

            @options("opttest.Changing")
            class After:
                count: int = 2

    def test_the_name_of_a_known_type_is_refused(self) -> None:
        with pytest.raises(GraphConfigError, match=r"gate_calculator\.proto"):

            @options("mediapipe.GateCalculatorOptions")
            class Gate:
                allow: bool = False

    @pytest.mark.parametrize("name", ["a b", "a..b", "", "1a", "a-b.C"])
    def test_a_bad_name_is_refused(self, name: str) -> None:
        with pytest.raises(GraphConfigError, match=r"is not a type's name|needs"):
            options(name or ".")(type("X", (), {"__annotations__": {"a": int}, "a": 1}))

    def test_extension_numbers_never_change(self) -> None:
        extension = OptionsType.of(Redact).extension
        assert extension.full_name == "opttest.Redact.ext"
        assert extension.number == 500_182_825

    def test_an_extension_number_can_be_given(self) -> None:
        @options("opttest.Numbered", extension=499_100_001)
        class Numbered:
            count: int = 1

        assert OptionsType.of(Numbered).extension.number == 499_100_001

    def test_a_taken_extension_number_is_refused(self) -> None:
        with pytest.raises(GraphConfigError, match=r"261754847 .* belongs to mediapipe\.Gate"):

            @options("opttest.Taken", extension=261754847)
            class Taken:
                count: int = 1

    def test_field_numbers_follow_the_class_or_are_given(self) -> None:
        fields = OptionsType.of(Redact).message_class.DESCRIPTOR.fields_by_name
        assert [fields[name].number for name in ("words", "mask", "weights", "by_number")] == [
            1,
            2,
            40,
            41,
        ]

    @pytest.mark.parametrize("number", [0, -1, 19_500, 2**29, "3"])
    def test_a_bad_field_number_is_refused(self, number: object) -> None:
        with pytest.raises(GraphConfigError, match="is not a field number"):

            @options("opttest.BadNumber")
            class BadNumber:
                count: int = field(default=1, metadata={"number": number})

    def test_a_field_number_is_taken_once(self) -> None:
        with pytest.raises(GraphConfigError, match="b and c both have number 2"):

            @options("opttest.SameNumber")
            class SameNumber:
                a: int = 1
                b: int = 2
                c: int = field(default=3, metadata={"number": 2})

    @pytest.mark.parametrize(
        "annotation",
        [
            object,
            complex,
            int | str,
            list,
            list[list[int]],
            tuple[int, str],
            dict[float, int],
            dict[str, list[int]],
            set[str],
            enum.Enum,
        ],
    )
    def test_fields_that_cannot_be_options_are_refused(self, annotation: object) -> None:
        made = type("X", (), {"__annotations__": {"field_name": annotation}, "field_name": None})
        with pytest.raises(GraphConfigError, match=r"opttest\.Bad\.field_name: an option cannot"):
            options("opttest.Bad")(made)

    def test_a_nested_dataclass_must_be_declared_too(self) -> None:
        @dataclasses.dataclass(frozen=True)
        class Plain:
            count: int = 1

        made = type("X", (), {"__annotations__": {"plain": Plain}})
        with pytest.raises(GraphConfigError, match="Plain needs the decorator @options as well"):
            options("opttest.Nested")(made)

    def test_an_annotation_that_cannot_be_resolved_is_refused(self) -> None:
        made = type("X", (), {"__annotations__": {"a": "Nowhere"}})
        with pytest.raises(GraphConfigError, match="must be defined in their module"):
            options("opttest.Unresolved")(made)


class TestValues:
    def test_every_kind_of_field_is_read(self) -> None:
        found = redact(
            'words: ["a", "b"] words: "c" mask: "#" mode: THOROUGH level: LOW reach: FAST limit: 7'
            ' keep: false ratio: 1e3 salt: "\\001" rule { pattern: "p" }'
            ' rules [{ pattern: "q" weight: 1 }] levels: [LOW, HIGH]'
            ' weights { key: "k" value: 2 } by_number { key: 3 value { pattern: "r" } }'
            " inner { mask: 'x' }"
        )
        assert found == Redact(
            words=("a", "b", "c"),
            mask="#",
            mode=Mode.THOROUGH,
            level=Level.LOW,
            reach=Reach.FAST,
            limit=7,
            keep=False,
            ratio=1000.0,
            salt=b"\1",
            rule=Rule("p"),
            rules=[Rule("q", 1.0)],
            levels=[Level.LOW, Level.HIGH],
            weights={"k": 2.0},
            by_number={3: Rule("r")},
            inner=(Redact(mask="x"),),
        )
        kind = OptionsType.of(Redact)
        assert kind.from_message(kind.to_message(found)) == found

    def test_unset_fields_keep_the_default(self) -> None:
        assert redact("") == Redact()

    def test_messages_have_the_defaults(self) -> None:
        message: Any = OptionsType.of(Redact).message_class()
        assert message.mask == "*"
        assert message.salt == b"\0\xff"
        assert message.level == 10
        assert message.ratio == 0.25

    def test_a_graph_with_options_of_an_author_can_be_printed(self) -> None:
        config = parse_graph_text('node { node_options { [t/opttest.Redact] { words: "a" } } }')
        assert '[t/opttest.Redact] {\n      words: "a"' in graph_to_text(config)

    def test_a_typo_has_a_place_and_a_suggestion(self) -> None:
        with pytest.raises(GraphSyntaxError, match=r"opttest\.Redact has no field `mas`") as caught:
            redact("mas: 'x'")
        assert caught.value.hint == 'Did you mean "mask"?'

    def test_a_field_without_default_is_required(self) -> None:
        with pytest.raises(GraphSyntaxError, match=r"opttest\.Strict needs `path`"):
            node("node_options { [t/opttest.Strict] { } }")

    def test_required_options_that_are_missing_are_an_error(self) -> None:
        with pytest.raises(GraphConfigError, match=r'node "n" \(C\): options opttest.Strict needs'):
            find_options(node(""), Strict)

    def test_a_list_without_default_may_be_empty(self) -> None:
        found = find_options(node('node_options { [t/opttest.Strict] { path: "p" } }'), Strict)
        assert found == Strict(path="p", names=[])

    def test_a_refusal_of_the_class_names_node_and_values(self) -> None:
        with pytest.raises(GraphConfigError) as caught:
            redact("limit: -3")
        assert str(caught.value) == (
            'node "n" (C): options opttest.Redact: limit must not be negative (given: limit: -3)'
        )

    def test_a_value_of_another_type_names_the_field(self) -> None:
        wrong: Any = Redact(ratio="x")  # type: ignore[arg-type]
        with pytest.raises(GraphConfigError, match=r"opttest\.Redact: ratio is float, not 'x'"):
            OptionsType.of(Redact).to_message(wrong)


class TestLookup:
    def test_options_in_the_old_syntax_are_found(self) -> None:
        found = find_options(node('options { [opttest.Redact.ext] { mask: "o" } }'), Redact)
        assert found == Redact(mask="o")

    @pytest.mark.parametrize("inside", ["", "limit: 1"])
    def test_an_extension_hides_node_options_completely(self, inside: str) -> None:
        both = node(
            f"options {{ [opttest.Redact.ext] {{ {inside} }} }}"
            ' node_options { [t/opttest.Redact] { mask: "n" } }'
        )
        assert find_options(both, Redact) == (Redact(limit=1) if inside else Redact())

    def test_other_types_do_not_matter(self) -> None:
        found = node(
            "options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }"
            " node_options { [t/opttest.Strict] { path: 'p' } }"
            " node_options { [t/opttest.Redact] { mask: 'n' } }"
        )
        assert find_options(found, Redact) == Redact(mask="n")
        assert has_options(found, Redact)
        assert has_options(found, "mediapipe.GateCalculatorOptions")
        assert not has_options(found, Rule)

    @pytest.mark.parametrize("wanted", [Redact, Rule])
    def test_a_type_may_occur_once_in_node_options(self, wanted: type[Any]) -> None:
        twice = node("node_options [{ [t/opttest.Redact] {} }, { [t/opttest.Redact] {} }]")
        with pytest.raises(GraphConfigError, match="specified more than once") as caught:
            find_options(twice, wanted)
        assert "Options type: 't/opttest.Redact'" in str(caught.value)
        assert caught.value.code is Code.INTERNAL

    def test_damaged_options_of_a_program_are_refused(self) -> None:
        broken = node("node_options { [t/opttest.Redact] { } }")
        broken.node_options[0].value = b"\x0a\x05a"
        with pytest.raises(GraphConfigError, match=r'node "n" \(C\): damaged options'):
            find_options(broken, Redact)

    def test_options_of_graphrts_own_messages_are_found(self) -> None:
        gate: Any = message_class("mediapipe.GateCalculatorOptions")
        text = "options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }"
        found = find_options(node(text), gate)
        assert isinstance(found, gate)
        assert found.allow is True
        assert find_options(node(text), "mediapipe.GateCalculatorOptions") == found

    def test_a_type_without_extension_is_found_in_node_options(self) -> None:
        found: Any = find_options(
            node(
                "node_options { [t/mediapipe.ImmediateMuxCalculatorOptions]"
                " { process_timestamp_bounds: true } }"
            ),
            message_class("mediapipe.ImmediateMuxCalculatorOptions"),
        )
        assert found.process_timestamp_bounds is True

    def test_options_of_handlers_and_executors_are_found(self) -> None:
        config = parse_graph_text(
            'executor { type: "ThreadPoolExecutor" options {'
            " [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 3 } } } executor { }"
        )
        kind: Any = message_class("mediapipe.ThreadPoolExecutorOptions")
        found = [find_extension_options(each.options, kind) for each in config.executor]
        assert [each.num_threads for each in found] == [3, 0]

    @pytest.mark.parametrize("wrong", [int, dict, "mediapipe.NoSuch", object()])
    def test_classes_that_are_not_options_are_refused(self, wrong: Any) -> None:
        with pytest.raises(GraphConfigError, match=r"is not a type of options|no message type"):
            find_options(node(""), wrong)

    def test_which_classes_are_types_of_options(self) -> None:
        assert is_options_type(Redact)
        assert is_options_type(message_class("mediapipe.GateCalculatorOptions"))
        assert is_options_type(any_pb2.Any)
        assert not is_options_type(int)
        assert not is_options_type(Redact())


@pytest.fixture(scope="module")
def compiled() -> type[Any]:
    """Return the class ``opttest.Compiled`` of another pool, as a ``*_pb2`` module has it."""
    own = descriptor_pool.DescriptorPool()
    for known in FileDescriptorSet.FromString(descriptor_set()).file:
        own.AddSerializedFile(known.SerializeToString())
    file = options_file("acme/compiled.proto", "opttest.Compiled", 499_100_002)
    own.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(own.FindMessageTypeByName("opttest.Compiled"))


class TestCompiledByTheAuthor:
    """``*_pb2`` classes, which live in protobuf's default pool."""

    def test_compiled_options_are_found_in_both_places_as_their_own_class(
        self, compiled: type[Any]
    ) -> None:
        kind = OptionsType.of(compiled)  # the effect of registering a calculator
        for text in (
            "options { [opttest.Compiled.ext] { count: 4 } }",
            "node_options { [t/opttest.Compiled] { count: 4 } }",
        ):
            found = find_options(node(text), compiled)
            assert isinstance(found, compiled)
            assert found == compiled(count=4)
        assert kind.from_message(kind.to_message(compiled(count=5))) == compiled(count=5)

    def test_compiled_options_are_merged(self, compiled: type[Any]) -> None:
        assert merge_options(compiled(count=1), compiled(count=2)) == compiled(count=2)

    def test_calculator_options_of_another_pool_are_merged(self, compiled: type[Any]) -> None:
        pool = compiled.DESCRIPTOR.file.pool
        container: Any = message_factory.GetMessageClass(
            pool.FindMessageTypeByName("mediapipe.CalculatorOptions")
        )()
        container.Extensions[pool.FindExtensionByName("opttest.Compiled.ext")].count = 9
        assert merge_options(compiled(count=1), container) == compiled(count=9)


class TestMerge:
    def test_set_fields_win_and_lists_append(self) -> None:
        base = Redact(words=("a",), mask="#", limit=1, rule=Rule("p", 2.0), weights={"a": 1.0})
        over = Redact(words=("b",), limit=2, rule=Rule("q"), weights={"b": 2.0})
        assert merge_options(base, over) == Redact(
            words=("a", "b"),
            mask="#",
            limit=2,
            rule=Rule("q", 2.0),
            weights={"a": 1.0, "b": 2.0},
        )

    def test_calculator_options_hold_the_type_or_change_nothing(self) -> None:
        container = node('options { [opttest.Redact.ext] { mask: "o" } }').options
        assert merge_options(Redact(limit=1), container) == Redact(limit=1, mask="o")
        assert merge_options(Strict("p", []), container) == Strict("p", [])

    def test_messages_are_merged(self) -> None:
        gate: Any = message_class("mediapipe.GateCalculatorOptions")
        base = gate(allow=True)
        merged: Any = merge_options(base, gate(empty_packets_as_allow=True))
        assert merged == gate(allow=True, empty_packets_as_allow=True)
        assert base == gate(allow=True)

    def test_a_merged_value_is_checked(self) -> None:
        bad: Message = OptionsType.of(Redact).message_class(limit=-1)
        with pytest.raises(GraphConfigError, match="limit must not be negative"):
            merge_options(Redact(), bad)

    @pytest.mark.parametrize("value", [3, None, Rule("p")])
    def test_any_other_value_is_refused(self, value: object) -> None:
        with pytest.raises(PacketTypeError, match=r"opttest\.Redact or mediapipe\.Calculator"):
            merge_options(Redact(), value)


def test_a_graph_can_name_options_in_a_process_with_mediapipes_own_modules() -> None:
    program = """
from google.protobuf import any_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from protos.pool import descriptor_set
default = descriptor_pool.Default()
for file in FileDescriptorSet.FromString(descriptor_set()).file:
    default.AddSerializedFile(file.SerializeToString())
theirs = message_factory.GetMessageClass(
    default.FindMessageTypeByName("mediapipe.GateCalculatorOptions"))
from graph_runtime.language.graph_config import parse_graph_text
from graph_runtime.options.options import find_options
text = "node { options { [mediapipe.GateCalculatorOptions.ext] { allow: true } } }"
found = find_options(parse_graph_text(text).node[0], theirs)
print(type(found) is theirs, found.allow)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True\n"
