"""The private pool: separate from the default pool, and open to the types of authors."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pool, json_format, message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import protos
from protos.pool import (
    add_file,
    adopt,
    class_of,
    descriptor_set,
    extensions_of,
    find_extension,
    find_message,
    message_class,
    pool,
)


def options_file(name: str, type_name: str, number: int) -> FileDescriptorProto:
    """Return a file with the options type ``type_name`` that has one int32 field ``count``."""
    package, _, short = type_name.rpartition(".")
    file = FileDescriptorProto(name=name, package=package, syntax="proto2")
    file.dependency.append("mediapipe/framework/calculator.proto")
    kind = file.message_type.add(name=short)
    kind.field.add(name="count", number=1, label=1, type=5)
    kind.extension.add(
        name="ext",
        number=number,
        label=1,
        type=11,
        type_name=f".{type_name}",
        extendee=".mediapipe.CalculatorOptions",
    )
    return file


@pytest.fixture(scope="module")
def default_pool() -> descriptor_pool.DescriptorPool:
    """The default pool of a process that has imported MediaPipe's and KServe's own modules."""
    default = descriptor_pool.Default()
    assert any_pb2.DESCRIPTOR.pool is default  # put there by its import
    for file in FileDescriptorSet.FromString(descriptor_set()).file:
        if file.name.startswith("mediapipe/"):
            default.AddSerializedFile(file.SerializeToString())
    kserve = FileDescriptorProto(name="grpc_predict_v2.proto", package="inference", syntax="proto3")
    kserve.message_type.add(name="ServerLiveRequest")
    try:
        default.FindMessageTypeByName("inference.ServerLiveRequest")
    except KeyError:  # unless a client library of other tests has brought it
        default.AddSerializedFile(kserve.SerializeToString())
    return default


def test_a_message_of_the_default_pool_lives_beside_ours(
    default_pool: descriptor_pool.DescriptorPool,
) -> None:
    theirs: Any = message_factory.GetMessageClass(
        default_pool.FindMessageTypeByName("mediapipe.CalculatorGraphConfig")
    )
    ours: Any = message_class("mediapipe.CalculatorGraphConfig")

    assert ours is not theirs
    assert ours.FromString(theirs(num_threads=3).SerializeToString()) == ours(num_threads=3)


def test_nothing_of_ours_is_in_the_default_pool() -> None:
    program = (
        "import protos.pool as p; p.message_class('mediapipe.CalculatorGraphConfig')\n"
        "from google.protobuf import descriptor_pool\n"
        "try: descriptor_pool.Default().FindMessageTypeByName('mediapipe.CalculatorGraphConfig')\n"
        "except KeyError: print('apart')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "apart\n"


def test_importing_the_pool_loads_nothing_of_protobuf() -> None:
    program = "import protos.pool, sys; print('google.protobuf' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_protobufs_own_formats_know_extensions_and_any() -> None:
    config = message_class("mediapipe.CalculatorGraphConfig")()
    text_format.Parse(
        "node { options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }"
        " node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { allow: true } } }",
        config,
        descriptor_pool=pool(),
    )
    held = json_format.MessageToDict(config, descriptor_pool=pool())["node"][0]["nodeOptions"][0]
    assert held == {
        "@type": "type.googleapis.com/mediapipe.GateCalculatorOptions",
        "allow": True,
    }


def test_an_unknown_type_is_none_or_a_key_error() -> None:
    assert find_message("acme.Nothing") is None
    assert find_extension("acme.Nothing.ext") is None
    with pytest.raises(KeyError):
        message_class("acme.Nothing")


def test_the_same_file_again_changes_nothing() -> None:
    file = options_file("twice.proto", "pooltest.Twice", 499_000_001)
    add_file(file)
    add_file(file)

    names = [extension.full_name for extension in extensions_of("mediapipe.CalculatorOptions")]
    assert names.count("pooltest.Twice.ext") == 1


def test_a_changed_file_is_refused() -> None:
    file = options_file("changed.proto", "pooltest.Changed", 499_000_002)
    add_file(file)
    file.message_type[0].field[0].name = "other"

    with pytest.raises(ValueError, match=r'"changed.proto" is registered already, with other'):
        add_file(file)


def test_a_taken_message_name_is_refused_with_its_owner() -> None:
    file = options_file("gate.proto", "mediapipe.GateCalculatorOptions", 499_000_003)

    with pytest.raises(ValueError, match=r"core/gate_calculator.proto.*GateCalculatorOptions"):
        add_file(file)


def test_a_taken_extension_number_is_refused_with_its_owner() -> None:
    file = options_file("number.proto", "pooltest.Number", 261754847)

    with pytest.raises(ValueError, match=r"261754847 of mediapipe.CalculatorOptions belongs to"):
        add_file(file)


def test_a_missing_import_is_refused() -> None:
    file = options_file("import.proto", "pooltest.Import", 499_000_004)
    file.dependency.append("acme/missing.proto")

    with pytest.raises(ValueError, match=r"acme/missing\.proto"):
        add_file(file)


def test_a_type_of_the_default_pool_is_adopted(
    default_pool: descriptor_pool.DescriptorPool,
) -> None:
    default_pool.AddSerializedFile(
        options_file("acme/adopted.proto", "pooltest.Adopted", 499_000_005).SerializeToString()
    )
    kind = adopt(default_pool.FindMessageTypeByName("pooltest.Adopted"))

    assert kind.file.pool is pool()
    assert adopt(kind) is kind
    assert find_extension("pooltest.Adopted.ext") is not None
    made: Any = class_of(kind)
    assert made(count=3).count == 3


def test_an_adopted_type_may_not_change() -> None:
    for field in ("count", "amount"):
        file = options_file("acme/fickle.proto", "pooltest.Fickle", 499_000_006)
        file.message_type[0].field[0].name = field
        own = descriptor_pool.DescriptorPool()
        for known in FileDescriptorSet.FromString(descriptor_set()).file:
            own.AddSerializedFile(known.SerializeToString())
        own.AddSerializedFile(file.SerializeToString())
        kind = own.FindMessageTypeByName("pooltest.Fickle")
        if field == "count":
            adopt(kind)
        else:
            with pytest.raises(ValueError, match=r"pooltest.Fickle is registered already"):
                adopt(kind)


def test_one_of_our_types_from_another_pool_becomes_ours(
    default_pool: descriptor_pool.DescriptorPool,
) -> None:
    theirs = default_pool.FindMessageTypeByName("mediapipe.GateCalculatorOptions")

    assert adopt(theirs) is find_message("mediapipe.GateCalculatorOptions")


@pytest.mark.parametrize("root", ["mediapipe/framework", "protos/mediapipe/framework"])
def test_a_proto_file_of_an_author_compiles_against_ours(root: str, tmp_path: Path) -> None:
    """Under MediaPipe's own paths, and under those of a copy of this folder."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    room = Path(protos.__file__).parent
    copy = tmp_path / "include"
    prefix = root.removesuffix("mediapipe/framework")
    for source in (room / "mediapipe").rglob("*.proto"):
        target = copy / prefix / source.relative_to(room)
        target.parent.mkdir(parents=True, exist_ok=True)
        pattern = r'(import (?:public )?")mediapipe/'
        target.write_text(re.sub(pattern, rf"\1{prefix}mediapipe/", source.read_text()))
    package = "authored" if not prefix else "authored_elsewhere"
    number = 499_000_007 + len(prefix)
    (copy / f"{package}.proto").write_text(
        f'syntax = "proto2"; package {package};\n'
        f'import "{root}/calculator.proto";\n'
        'import "google/protobuf/duration.proto";\n'
        "message Options {\n"
        f"  extend mediapipe.CalculatorOptions {{ optional Options ext = {number}; }}\n"
        "  optional google.protobuf.Duration wait = 1;\n"
        "  repeated mediapipe.InputStreamInfo info = 2;\n"
        "}\n"
    )
    output = tmp_path / "set.binpb"
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{copy}", f"-I{well_known}", "--include_imports", f"-o{output}"]
    assert protoc.main(["protoc", *arguments, f"{package}.proto"]) == 0
    theirs = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(output.read_bytes()).file:
        theirs.AddSerializedFile(file.SerializeToString())

    kind = adopt(theirs.FindMessageTypeByName(f"{package}.Options"))

    assert kind.fields_by_name["info"].message_type is find_message("mediapipe.InputStreamInfo")
    assert find_extension(f"{package}.Options.ext") is not None


def test_no_class_is_ever_garbage() -> None:
    """Protobuf refers to classes weakly, and crashes where one is looked up while it is freed."""
    add_file(options_file("test/kept.proto", "test.kept.KeptOptions", 61_234_567))
    names = (
        "mediapipe.CalculatorGraphConfig.Node",
        "mediapipe.GateCalculatorOptions",
        "inference.ModelInferRequest.InferInputTensor",
        "test.kept.KeptOptions",
    )
    classes = [weakref.ref(message_class(name)) for name in names]
    gc.collect()
    assert [each() for each in classes] == [message_class(name) for name in names]
