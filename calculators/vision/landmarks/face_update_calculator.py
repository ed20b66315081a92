"""UpdateFaceLandmarksCalculator: eyes of the iris model in the landmarks of a face."""

from __future__ import annotations

from typing import Final

import numpy as np

from calculators.vision.landmarks.landmark_ports import take_landmarks
from calculators.vision.landmarks.landmarks import Landmarks, landmarks_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError

_FACE: Final = 468
#: Where the landmarks of both eyes of the iris model, the left one first, are in a face.
_TEXT: Final = """
    33 7 163 144 145 153 154 155 133 246 161 160 159 158 157 173 130 25
    110 24 23 22 26 112 243 247 30 29 27 28 56 190 226 31 228 229
    230 231 232 233 244 113 225 224 223 222 221 189 35 124 46 53 52 65
    143 111 117 118 119 120 121 128 245 156 70 63 105 66 107 55 193 263
    249 390 373 374 380 381 382 362 466 388 387 386 385 384 398 359 255 339
    254 253 252 256 341 463 467 260 259 257 258 286 414 446 261 448 449 450
    451 452 453 464 342 445 444 443 442 441 413 265 353 276 283 282 295 372
    340 346 347 348 349 350 357 465 383 300 293 334 296 336 285 417
"""
_PLACES: Final = np.array([int(each) for each in _TEXT.split()], np.intp)


class UpdateFaceLandmarksCalculator(Calculator):
    """Replaces the eyes in the landmarks of a face.

    Inputs:
        FACE_LANDMARKS (`Landmarks`): 468.
        NEW_EYE_LANDMARKS (`Landmarks`): 71 of the left eye, then 71 of the right.
    Outputs: UPDATED_FACE_LANDMARKS (`Landmarks`): z stays.
    Options: none.

    ::

        node {
          calculator: "UpdateFaceLandmarksCalculator"
          input_stream: "NEW_EYE_LANDMARKS:eyes"
          input_stream: "FACE_LANDMARKS:face"
          output_stream: "UPDATED_FACE_LANDMARKS:face_with_eyes"
        }

    Source: MediaPipe ``graphs/iris_tracking/calculators/update_face_landmarks_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["FACE_LANDMARKS"])
        take_landmarks(contract.inputs["NEW_EYE_LANDMARKS"])
        contract.outputs["UPDATED_FACE_LANDMARKS"].set(Landmarks)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if any(shard.is_empty() for shard in cc.input_list):
            return
        face = landmarks_of(cc.inputs["FACE_LANDMARKS"].value)
        eyes = landmarks_of(cc.inputs["NEW_EYE_LANDMARKS"].value)
        if len(face) < _FACE or len(eyes) != len(_PLACES):
            raise GraphError(
                f"{_FACE} landmarks of a face and {len(_PLACES)} of eyes are needed; there are "
                f"{len(face)} and {len(eyes)}",
                code=Code.INVALID_ARGUMENT,
            )
        values = face.values.copy()
        values[_PLACES, :2] = eyes.values[:, :2]
        cc.outputs["UPDATED_FACE_LANDMARKS"].add(face.with_values(values), cc.time)
