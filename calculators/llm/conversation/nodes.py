"""The nodes of a conversation: `ConversationCalculator` has the client, and
`ConversationAnswerCalculator` takes the language model's answers."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, Messages
from calculators.kit.tasks.nodes import node_resource
from calculators.language.delta import Deltas
from calculators.language.generation_request import GenerationRequest
from calculators.llm.conversation.session import ConversationSession
from calculators.speech.speech_to_text.nodes import S2tCalculator
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, SideIn


class ConversationCalculator(S2tCalculator):
    """Holds a conversation over a WebSocket, ``/v1/realtime``, with OpenAI's events.

    It listens with a speech model, and speaks with another one. What was said goes out as a
    `GenerationRequest` for each answer, to a language model with any nodes before and after it; the
    answers come to `ConversationAnswerCalculator`, which gets the conversation by a packet. One
    call lasts as long as the client stays. Files of sound are written down as `S2tCalculator` does.

    Options: both ``mediapipe.S2tCalculatorOptions`` and ``mediapipe.T2sCalculatorOptions``.

    ::

        node {
          name: "conversation"
          calculator: "ConversationCalculator"
          input_stream: "HTTP_REQUEST_PAYLOAD:socket"
          input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
          input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
          output_stream: "HTTP_RESPONSE_PAYLOAD:events"
          output_stream: "REQUEST:request"
          output_stream: "CONVERSATION:conversation"
          node_options {
            [type.googleapis.com/mediapipe.S2tCalculatorOptions] { models_path: "speech/listener" }
          }
          node_options {
            [type.googleapis.com/mediapipe.T2sCalculatorOptions] { models_path: "speech/speaker" }
          }
        }
    """

    question = Out[GenerationRequest]("REQUEST")
    conversation = Out[ConversationSession]("CONVERSATION")
    speakers = SideIn[dict[str, Any]]("TTS_NODE_RESOURCES")

    async def converse(
        self, cc: CalculatorContext, payload: HttpPayload, messages: Messages, response: Out[Any]
    ) -> None:
        session = ConversationSession(
            node_resource(cc, self.resources, "STT"),
            node_resource(cc, self.speakers, "T2S"),
            messages,
            "" if payload.record is None else payload.record.model,
            client=payload.client,
            record=payload.record,
        )
        time = cc.time
        cc.emit(self.conversation, session, at=time)
        cc.flush()
        async with aclosing(session.packets()) as packets:
            async for packet in packets:
                if isinstance(packet, GenerationRequest):
                    cc.emit(self.question, packet, at=time)
                else:
                    await payload.client.writable()
                    cc.emit(response, packet, at=time)
                cc.flush()
                time += 1


class ConversationAnswerCalculator(Calculator):
    """Gives the answers of a language model to the conversation that asked for them.

    ::

        node {
          calculator: "ConversationAnswerCalculator"
          input_stream: "DELTAS:deltas"
          input_stream: "CONVERSATION:conversation"
        }
    """

    deltas = In[Deltas]("DELTAS")
    conversation = In[ConversationSession]("CONVERSATION")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._session: ConversationSession | None = None

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.conversation):
            self._session = cc.get(self.conversation)
        if not cc.is_empty(self.deltas) and self._session is not None:
            self._session.answered(cc.get(self.deltas))
