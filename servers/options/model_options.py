"""Options for one model: for the graph that its task makes, and for a plain model.

The names are OpenVINO Model Server's (``cli_parser.cpp``). Tasks declare their own options. Others
say which model comes from a hub, and in which form it is kept.

``--extra_quantization_params`` is checked before anything starts. Its names and meanings are those
of ``optimum-cli export openvino --help`` (optimum-intel 1.27). Other arguments of the exporter are
refused: they would change which model is exported, or run its code.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import (
    MEDIA,
    RUNNING,
    TASK,
    Group,
    Option,
    option,
    options_of,
)
from calculators.kit.settings.value_types import count_or_zero, one_of, switch
from calculators.kit.tasks import failed_tasks, installed_tasks
from calculators.kit.tasks.task import DeviceOptions

INDEX: Final = Group("the index")
EMBEDDING_MODEL: Final = Group("the embedding model")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """The index that is made, and the model that embeds its passages."""

    out: str = option(
        "docs.db",
        "the index; default {default}. One of more than 20,000 passages gets a second file for its "
        "search, FILE.usearch, if the extra `retrieval` is installed",
        group=INDEX,
        metavar="FILE",
    )
    root: str = option(
        ".",
        "the directory that paths of sources are relative to; default the current one. Clients see "
        "these paths",
        group=INDEX,
        metavar="DIR",
    )
    model: str | None = option(
        None,
        "its directory: openvino_model.xml, tokenizer.json. Graphs that search the index need the "
        "same one",
        group=EMBEDDING_MODEL,
        metavar="DIR",
    )
    pooling: str = option(
        "",
        "CLS, LAST or MEAN of a text's tokens; default as 1_Pooling/config.json says, else CLS",
        group=EMBEDDING_MODEL,
        metavar="HOW",
        reads=one_of(("CLS", "LAST", "MEAN")),
    )
    target_device: str = option(
        "",
        "CPU, GPU, ...; default CPU",
        group=EMBEDDING_MODEL,
        metavar="DEVICE",
    )
    plugin_config: str = option(
        "",
        "OpenVINO properties, as a JSON object",
        group=EMBEDDING_MODEL,
        metavar="JSON",
    )


def index_options() -> tuple[Option, ...]:
    """Return the options of the command."""
    return options_of(IndexOptions)


TUNING: Final = Group("measuring and choosing")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The load, the time, and the conditions of the choice."""

    load: str = option(
        "chat",
        "chat: 8 streams of short conversations; long_prompts: 2 streams of 1,500 tokens; "
        "many_streams: 64 streams of 100 tokens; default {default}",
        group=TUNING,
        metavar="LOAD",
        reads=one_of(("chat", "long_prompts", "many_streams")),
    )
    budget: float = option(
        300.0,
        "seconds for the measurements; default {default}",
        group=TUNING,
        metavar="SECONDS",
        reads=_positive,
    )
    first_token: float = option(
        1.5,
        "the longest wait for a first token that a choice may have, as a multiple of the wait with "
        "the default settings; default {default}",
        group=TUNING,
        metavar="FACTOR",
        reads=_positive,
    )
    may_change_answers: bool = option(
        False,
        "choose also among settings that change what the model answers",
        group=TUNING,
        metavar="BOOL",
        reads=switch,
    )
    show_only: bool = option(
        False,
        "write the graph to standard output, and no file",
        group=TUNING,
        metavar="BOOL",
        reads=switch,
    )


def tune_options() -> tuple[Option, ...]:
    """Return the options of the command."""
    return options_of(TuneOptions)


SERVED: Final = Group("what to serve, without CONFIG")
MODEL: Final = Group(
    "a plain model",
    "For a DIR with folders of versions, such as DIR/1/model.xml, or for a model's file. --shape\n"
    "and --layout may be JSON objects by the names of tensors. --target_device and\n"
    "--plugin_config apply too.",
)
HUB: Final = Group("a model of a hub")
EXPORT: Final = Group(
    "a model of safetensors",
    "It is exported to OpenVINO's form, once; the export is kept in the directory of models.\n"
    "Needs pip install 'graphrt[export]'.",
)
HTTP: Final = Group("HTTP")
GRPC: Final = Group("gRPC")
KEYS: Final = Group("API keys and rights")
TLS: Final = Group("TLS for HTTP and gRPC")
PAGE: Final = Group("the page at /")
PAGES: Final = Group("web pages of others (CORS)")
BATCHES: Final = Group("files and batches")
KEPT: Final = Group("responses that are kept")
LIMITS: Final = Group("limits")
TELEMETRY: Final = Group("log, traces and metrics")

#: The order of the groups. Groups of families that are not listed come last.
ORDER: Final = (
    SERVED,
    HUB,
    EXPORT,
    TASK,
    MODEL,
    HTTP,
    GRPC,
    KEYS,
    TLS,
    PAGE,
    PAGES,
    BATCHES,
    KEPT,
    LIMITS,
    MEDIA,
    RUNNING,
    TELEMETRY,
)

#: The groups that only a server with clients has a use for.
OF_CLIENTS: Final = frozenset({HTTP, GRPC, KEYS, TLS, PAGE, PAGES, KEPT})


def task_choice() -> Option:
    """Return the option ``--task``, whose values are the installed tasks."""
    names = tuple(task.name for task in installed_tasks())
    text = f"{', '.join(names)}; default: the one that the model's files show"
    return Option(
        name="task",
        flag="task",
        group=TASK,
        metavar="TASK",
        reads=one_of(names, tuple(failed_tasks())),
        default=None,
        help=text if names else "none is known",
    )


def task_options() -> tuple[Option, ...]:
    """Return the options of all installed tasks, and the options that all plain models have."""
    return options_of(*(task.options for task in installed_tasks()), DeviceOptions)


def _key(metavar: str, help_text: str, reads: Callable[[str], object] = str) -> Any:
    """Declare a field whose flag is also a key of ``model_config_list``."""
    return option(None, help_text, group=MODEL, metavar=metavar, reads=reads, config_key="{flag}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options of a plain model, unparsed; `servers.config` checks them."""

    shape: str | None = _key(
        "SHAPE", '"(1,3,224,224)", with -1 or 2:8 for lengths that vary, or auto'
    )
    batch_size: str | None = _key("N", "a number, a range 2:8, or auto")
    layout: str | None = _key("LAYOUT", "NHWC:NCHW: the layout of clients and of the model")
    precision: str | None = _key("TYPES", "uint8:fp32: the type of clients and of the model")
    color_format: str | None = _key("FORMATS", "RGB:BGR: the format of the model and of clients")
    mean: str | None = _key("NUMBERS", "subtracted from inputs: 127.5, or one per channel, [1,2,3]")
    scale: str | None = _key("NUMBERS", "divides inputs after the mean is subtracted")
    model_version_policy: str | None = _key("JSON", 'default {"latest": {"num_versions": 1}}')
    nireq: int | None = _key(
        "N", "inferences at a time; default 0: as OpenVINO recommends", count_or_zero
    )


def entry_options() -> tuple[Option, ...]:
    """Return the options of a plain model that are keys of its entry in config.json."""
    return tuple(each for each in options_of(ModelOptions, DeviceOptions) if each.config_key)


Check = Callable[[str], bool]

_METRICS: Final = (
    "weight_quantization_error",
    "hessian_input_activation",
    "mean_activation_variance",
    "max_activation_variance",
    "mean_activation_magnitude",
)


def _is_share(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _is_group_size(text: str) -> bool:
    return text == "-1" or (text.isdecimal() and len(text) < 7 and int(text) > 0)


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 7 and int(text) > 0


def _is_name(text: str) -> bool:
    return bool(text) and not text.startswith("-")


#: Parameters with a value: a check of it, and the form for messages.
_WITH_VALUE: Final[Mapping[str, tuple[Check, str]]] = {
    "--ratio": (_is_share, "a number from 0 to 1"),
    "--group-size": (_is_group_size, "a number from 1 on, or -1 for whole channels"),
    "--group-size-fallback": (("error", "ignore", "adjust").__contains__, "error, ignore, adjust"),
    "--backup-precision": (
        ("none", "int8_sym", "int8_asym").__contains__,
        "none, int8_sym or int8_asym",
    ),
    "--sensitivity-metric": (_METRICS.__contains__, ", ".join(_METRICS)),
    "--dataset": (_is_name, "the name of a dataset, such as wikitext2, or auto"),
    "--num-samples": (_is_count, "a number from 1 on"),
}
_SWITCHES: Final = (
    "--sym",
    "--all-layers",
    "--awq",
    "--scale-estimation",
    "--gptq",
    "--lora-correction",
)
#: Every parameter, for documents.
PARAMETERS: Final = (*_WITH_VALUE, *_SWITCHES)
#: Parameters that also apply to weights of eight bits.
OF_INT8: Final = frozenset({"--sym"})


def quantization_parameters(text: str) -> tuple[str, ...]:
    """Read parameters as they stand on a command line.

    Raises:
        argparse.ArgumentTypeError: one is unknown, or has a wrong value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        name = "--" + name.removeprefix("--").replace("_", "-") if name.startswith("--") else name
        if name in _SWITCHES and not equals:
            found.append(name)
            continue
        if name not in _WITH_VALUE:
            raise argparse.ArgumentTypeError(
                f"{word!r} is not a parameter of quantization; known: {', '.join(PARAMETERS)}"
            )
        check, form = _WITH_VALUE[name]
        if not equals:
            value = next(rest, "")
        if not check(value):
            raise argparse.ArgumentTypeError(f"{name} needs {form}, not {value!r}")
        found += [name, value]
    return tuple(found)


def check_combination(weight_format: str, parameters: tuple[str, ...]) -> None:
    """Check that parameters apply to a format of weights.

    Raises:
        ValueError: one does not; the text names it.
    """
    for name in parameters:
        if not name.startswith("--") or weight_format in _FOUR_BITS:
            continue
        if weight_format != "int8" or name not in OF_INT8:
            raise ValueError(
                f"--extra_quantization_params: {name} does not apply to weights in "
                f"{weight_format}; it needs --weight_format int4"
            )


def needs_network(parameters: tuple[str, ...]) -> bool:
    """Return whether the exporter has to download samples for these parameters."""
    return "--dataset" in parameters


#: Forms of weights that every exporter writes and a CPU computes with.
COMMON_FORMATS: Final = ("fp32", "fp16", "int8", "int4")
#: All forms that are handed to the exporter, which may refuse those that are not common.
WEIGHT_FORMATS: Final = (*COMMON_FORMATS, "nf4", "mxfp4", "cb4", "fp64")
#: Those that parameters of quantization are for.
_FOUR_BITS: Final = ("int4", "nf4", "mxfp4", "cb4")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options that name a model of a hub."""

    source_model: str | None = option(
        None,
        "a model of a hub, org/name[@revision][:file.gguf], downloaded unless it is here",
        group=HUB,
        metavar="SOURCE",
    )
    gguf_filename: str | None = option(
        None,
        "the GGUF file of that repository; the same as :FILE",
        group=HUB,
        metavar="FILE",
    )
    overwrite_models: bool = option(
        False,
        "download the newest commit, or export again, and replace what has the name here",
        group=HUB,
        metavar="BOOL",
        reads=value_types.switch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryOptions:
    """The option that names the directory of models."""

    model_repository_path: str | None = option(
        None,
        "the directory of models; default $OVMS_MODEL_REPOSITORY_PATH, else "
        "~/.cache/graphrt/models",
        group=HUB,
        metavar="DIR",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options for the export of safetensors to OpenVINO's form."""

    weight_format: str | None = option(
        None,
        "fp32, fp16, int8 or int4, or one of the exporter's further formats: nf4, mxfp4, cb4, "
        "fp64; default int8, and int4 for an NPU",
        group=EXPORT,
        metavar="FORMAT",
        reads=value_types.one_of(WEIGHT_FORMATS),
    )
    extra_quantization_params: tuple[str, ...] = option(
        (),
        'further parameters of optimum-cli in one word: "--sym --group-size 64 --ratio 0.8"',
        group=EXPORT,
        metavar="PARAMETERS",
        reads=quantization_parameters,
    )


def source_options() -> tuple[Option, ...]:
    """Return the options that `graphrt serve` and `graphrt pull` share."""
    return options_of(SourceOptions, RepositoryOptions, ExportOptions)


def repository_options() -> tuple[Option, ...]:
    """Return the option of the directory of models."""
    return options_of(RepositoryOptions)
