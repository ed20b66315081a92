"""Parameters of quantization in ``--extra_quantization_params``, checked before anything starts.

Names and meanings are those of ``optimum-cli export openvino --help`` (optimum-intel 1.27). Other
arguments of the exporter are refused: they would change which model is exported, or run its code.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import Final

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
                f"{word!r} is no parameter of quantization; known: {', '.join(PARAMETERS)}"
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
        if not name.startswith("--") or weight_format == "int4":
            continue
        if weight_format != "int8" or name not in OF_INT8:
            raise ValueError(
                f"--extra_quantization_params: {name} does not apply to weights in "
                f"{weight_format}; it needs --weight_format int4"
            )


def needs_network(parameters: tuple[str, ...]) -> bool:
    """Return whether the exporter has to download samples for these parameters."""
    return "--dataset" in parameters
