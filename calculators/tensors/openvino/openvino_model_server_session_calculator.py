"""OpenVINOModelServerSessionCalculator: a model, for the nodes that run it."""

from __future__ import annotations

from calculators.tensors.openvino.directory_models import MODELS
from calculators.tensors.openvino.model import Model
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    GraphConfigError,
    GraphError,
    NotFoundError,
    Options,
    SideOut,
    Stop,
)
from protos import messages

_OPTIONS = messages.OpenVINOModelServerSessionCalculatorOptions


class OpenVINOModelServerSessionCalculator(Calculator):
    """Gets a model by name from the graph's host; ``graphrt run`` looks beside the graph.

    Output side packets: SESSION: for OpenVINOInferenceCalculator.
    Options (mediapipe.OpenVINOModelServerSessionCalculatorOptions):
        servable_name: the model's name.
        servable_version: a positive number; absent, empty or 0 is the default version.
        service_url, server_config, log_level: accepted, without effect.

    ::

        node {
          calculator: "OpenVINOModelServerSessionCalculator"
          output_side_packet: "SESSION:session"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOModelServerSessionCalculatorOptions] {
              servable_name: "add"
            }
          }
        }

    Source: OpenVINO Model Server
    ``mediapipe_calculators/ovms/openvinomodelserversessioncalculator.cc``.
    """

    session = SideOut[Model]("SESSION")
    options = Options(_OPTIONS)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(_OPTIONS)
        contract.require(
            bool(options.servable_name), "servable_name is missing; it is the name of a model"
        )
        _version(options.servable_version)
        contract.use_service(MODELS)

    async def open(self, cc: CalculatorContext) -> None:
        models = cc.service(MODELS)
        assert models is not None, "the contract asks for it"
        version = _version(self.options.servable_version)
        try:
            cc.set_side(self.session, await models.get(self.options.servable_name, version))
        except NotFoundError as error:
            # To a client a NotFoundError says that the model of its request does not exist.
            raise GraphError(str(error), code=error.code) from error

    def process(self, cc: CalculatorContext) -> None:
        raise Stop


def _version(text: str) -> int | None:
    """``servable_version``; None is the default one."""
    digits = "".join(text.split())
    if not digits:
        return None
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9):
        raise GraphConfigError(
            f'servable_version: "{text}" is no version; write a positive number, or leave it out '
            f"for the default version"
        )
    return int(digits) or None
