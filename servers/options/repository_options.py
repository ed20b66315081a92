"""Options for models that come from a hub, and for the form in which they are kept.

The names are OpenVINO Model Server's (``cli_parser.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.settings import value_types
from calculators.kit.settings.declaration import Option, option, options_of
from servers.options.groups import EXPORT, HUB
from servers.options.quantization import quantization_parameters

#: Forms of weights that the exporter writes and a CPU computes with.
WEIGHT_FORMATS: Final = ("fp32", "fp16", "int8", "int4")
#: Further formats of the exporter, which only some devices compute with.
_FURTHER_FORMATS: Final = ("mxfp4", "nf4", "cb4")


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
        "fp32, fp16, int8 or int4; default int8, and int4 for an NPU",
        group=EXPORT,
        metavar="FORMAT",
        reads=value_types.one_of(WEIGHT_FORMATS, _FURTHER_FORMATS),
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
