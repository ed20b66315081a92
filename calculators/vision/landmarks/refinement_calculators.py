"""Calculators that correct landmarks by other outputs of a model."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import TENSORS
from calculators.vision.landmarks.landmarks import (
    PRESENCE,
    VISIBILITY,
    Floats,
    Landmarks,
    landmarks_of,
    take_landmarks,
)
from calculators.vision.landmarks.scores_calculators import sigmoid
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

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


_REFINEMENT = messages.LandmarksRefinementCalculatorOptions
_HEATMAP = messages.RefineLandmarksFromHeatmapCalculatorOptions
_COPY = messages.VisibilityCopyCalculatorOptions


class LandmarksRefinementCalculator(Calculator):
    """Joins landmarks of several kinds into one list, later ones over earlier ones.

    Inputs: LANDMARKS:i (`Landmarks`): one per refinement. Nothing is sent where one has no packet.
    Outputs: REFINED_LANDMARKS (`Landmarks`).
    Options (mediapipe.LandmarksRefinementCalculatorOptions):
        refinement: repeated; ``indexes_mapping`` says where each landmark goes, ``z_refinement``
            what becomes of z: none (it stays), copy, or assign_average of landmarks that are there.
            All mappings together leave no gap.

    ::

        node {
          calculator: "LandmarksRefinementCalculator"
          input_stream: "LANDMARKS:0:mesh"
          input_stream: "LANDMARKS:1:iris"
          output_stream: "REFINED_LANDMARKS:refined"
          options {
            [mediapipe.LandmarksRefinementCalculatorOptions.ext] {
              refinement { indexes_mapping: [0, 1, 2] z_refinement { copy {} } }
              refinement {
                indexes_mapping: [3]
                z_refinement { assign_average { indexes_for_average: [0, 1] } }
              }
            }
          }
        }

    Source: MediaPipe ``calculators/util/landmarks_refinement_calculator.cc``.
    """

    options = Options(_REFINEMENT)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(_REFINEMENT)
        count = contract.inputs.num_entries("LANDMARKS")
        contract.require(
            0 < count == len(options.refinement),
            f"each input stream LANDMARKS needs a refinement: there are {count} streams and "
            f"{len(options.refinement)} refinements",
        )
        places = {index for each in options.refinement for index in each.indexes_mapping}
        contract.require(
            places == set(range(len(places))),
            "indexes_mapping: all mappings together must cover 0 to the largest index",
        )
        for index in range(max(count, 1)):
            take_landmarks(contract.inputs["LANDMARKS", index])
        contract.outputs["REFINED_LANDMARKS"].set(Landmarks)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._refinements = [
            (
                np.array(each.indexes_mapping, np.intp),
                each.z_refinement.WhichOneof("z_refinement_options"),
                np.array(each.z_refinement.assign_average.indexes_for_average, np.intp),
            )
            for each in self.options.refinement
        ]
        self._count = 1 + max(int(each[0].max()) for each in self._refinements)

    def process(self, cc: CalculatorContext) -> None:
        shards = cc.inputs.all_of("LANDMARKS")
        if any(shard.is_empty() for shard in shards):
            return
        values = np.zeros((self._count, 5), np.float32)
        for shard, (mapping, z_option, averaged) in zip(shards, self._refinements, strict=True):
            source = landmarks_of(shard.value).values
            if len(source) != len(mapping):
                raise GraphError(
                    f'"{shard.name}" has {len(source)} landmarks and its mapping {len(mapping)}',
                    code=Code.INVALID_ARGUMENT,
                )
            values[mapping, :2] = source[:, :2]
            if z_option == "copy":
                values[mapping, 2] = source[:, 2]
            elif z_option == "assign_average":
                # Of depths that are refined already, so the order of the refinements counts.
                # MediaPipe sums in double.
                values[mapping, 2] = values[averaged, 2].mean(dtype=np.float64)
        cc.outputs["REFINED_LANDMARKS"].add(Landmarks(values), cc.time)


class RefineLandmarksFromHeatmapCalculator(Calculator):
    """Moves each landmark to the centre of mass of its heatmap around it.

    Inputs:
        NORM_LANDMARKS (`Landmarks`).
        TENSORS (list of numpy.ndarray): the first is the heatmap, (1, h, w, landmarks), raw. The
            landmarks pass where there is none.
    Outputs: NORM_LANDMARKS (`Landmarks`).
    Options (mediapipe.RefineLandmarksFromHeatmapCalculatorOptions):
        kernel_size: of the window around a landmark in cells, default 9.
        min_confidence_to_refine: a landmark stays where the largest probability is below; 0.5.
        refine_presence, refine_visibility: they are at most that probability.

    ::

        node {
          calculator: "RefineLandmarksFromHeatmapCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          input_stream: "TENSORS:heatmap"
          output_stream: "NORM_LANDMARKS:refined"
          options {
            [mediapipe.RefineLandmarksFromHeatmapCalculatorOptions.ext] { kernel_size: 7 }
          }
        }

    Source: MediaPipe ``calculators/util/refine_landmarks_from_heatmap_calculator.cc``.
    """

    options = Options(_HEATMAP)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["NORM_LANDMARKS"].set(Landmarks)
        size = contract.options(_HEATMAP).kernel_size
        contract.require(size > 0, f"kernel_size is above 0, not {size}")
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty():
            return
        found = landmarks_of(cc.inputs["NORM_LANDMARKS"].value)
        tensors = [] if cc.inputs["TENSORS"].is_empty() else cc.inputs["TENSORS"].value
        if tensors:
            found = found.with_values(self._refined(found.values, _heatmap(tensors[0], found)))
        cc.outputs["NORM_LANDMARKS"].add(found, cc.time)

    def _refined(self, values: Floats, heatmap: Floats) -> Floats:
        """``values`` (n, 5) by a heatmap (h, w, n) of raw numbers."""
        options = self.options
        height, width, count = heatmap.shape
        # Towards 0, as C++ converts; what is not a number is outside, since no comparison holds.
        columns = np.trunc(values[:, 0] * np.float32(width))
        rows = np.trunc(values[:, 1] * np.float32(height))
        inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
        column = np.where(inside, columns, 0).astype(np.intp)
        row = np.where(inside, rows, 0).astype(np.intp)

        offsets = np.arange(options.kernel_size) - (options.kernel_size - 1) // 2
        offsets = offsets[np.abs(offsets) <= (options.kernel_size - 1) // 2]
        near_x = column[:, np.newaxis] + offsets
        near_y = row[:, np.newaxis] + offsets
        valid_x, valid_y = (near_x >= 0) & (near_x < width), (near_y >= 0) & (near_y < height)
        cells = np.clip(near_y, 0, height - 1)[:, :, np.newaxis] * width
        cells = cells + np.clip(near_x, 0, width - 1)[:, np.newaxis, :]
        window = heatmap.reshape(-1).take(
            cells * count + np.arange(count)[:, np.newaxis, np.newaxis]
        )
        valid = valid_y[:, :, np.newaxis] & valid_x[:, np.newaxis, :]
        confidence = np.where(valid, sigmoid(window), np.float32(0))

        highest = confidence.max(axis=(1, 2))
        total = confidence.sum(axis=(1, 2))
        is_refined = inside & (highest >= np.float32(options.min_confidence_to_refine))
        is_refined &= total > 0
        safe = np.where(is_refined, total, 1)
        refined = values.copy()
        for axis, near, size, summed in ((0, near_x, width, 1), (1, near_y, height, 2)):
            mass = (confidence.sum(axis=summed) * near).sum(axis=1) / np.float32(size) / safe
            refined[:, axis] = np.where(is_refined, mass, values[:, axis])
        for column_of, is_wanted in (
            (PRESENCE, options.refine_presence),
            (VISIBILITY, options.refine_visibility),
        ):
            if is_wanted:
                lower = np.minimum(values[:, column_of], highest)
                refined[:, column_of] = np.where(inside, lower, values[:, column_of])
        return refined


def _heatmap(tensor: npt.NDArray[Any], found: Landmarks) -> Floats:
    shape = tensor.shape
    if (
        tensor.dtype != np.float32
        or len(shape) not in (3, 4)
        or shape[-1] != len(found)
        or (len(shape) == 4 and shape[0] != 1)
    ):
        raise GraphError(
            f"a heatmap of float32 with the shape (1, height, width, {len(found)}) is needed; it "
            f"is {tuple(shape)} of {tensor.dtype}",
            code=Code.INVALID_ARGUMENT,
        )
    return tensor.reshape(shape[-3:])


class VisibilityCopyCalculator(Calculator):
    """Gives landmarks the visibility and presence of others.

    Inputs:
        NORM_LANDMARKS_FROM or LANDMARKS_FROM (`Landmarks`).
        NORM_LANDMARKS_TO or LANDMARKS_TO (`Landmarks`): as many.
    Outputs: NORM_LANDMARKS_TO or LANDMARKS_TO (`Landmarks`).
    Options (mediapipe.VisibilityCopyCalculatorOptions):
        copy_visibility, copy_presence: both are true by default.

    ::

        node {
          calculator: "VisibilityCopyCalculator"
          input_stream: "NORM_LANDMARKS_FROM:landmarks"
          input_stream: "LANDMARKS_TO:world_landmarks"
          output_stream: "LANDMARKS_TO:seen_world_landmarks"
        }

    Source: MediaPipe ``calculators/util/visibility_copy_calculator.cc``.
    """

    options = Options(_COPY)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for side in ("FROM", "TO"):
            tags = (f"NORM_LANDMARKS_{side}", f"LANDMARKS_{side}")
            contract.require(
                sum(map(contract.inputs.has_tag, tags)) == 1,
                f"exactly one of the input streams {' and '.join(tags)} is needed",
            )
            for tag in tags:
                take_landmarks(contract.inputs[tag]).optional()
        for tag in ("NORM_LANDMARKS_TO", "LANDMARKS_TO"):
            contract.outputs[tag].set(Landmarks).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._from = next(tag for tag in cc.inputs.tags() if tag.endswith("_FROM"))
        self._to = next(tag for tag in cc.inputs.tags() if tag.endswith("_TO"))

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[self._from].is_empty() or cc.inputs[self._to].is_empty():
            return
        source = landmarks_of(cc.inputs[self._from].value)
        target = landmarks_of(cc.inputs[self._to].value)
        if len(source) != len(target):
            raise GraphError(
                f"{len(source)} landmarks cannot give their visibility to {len(target)}",
                code=Code.INVALID_ARGUMENT,
            )
        values = target.values.copy()
        options = self.options
        if options.copy_visibility:
            values[:, VISIBILITY] = source.values[:, VISIBILITY]
        if options.copy_presence:
            values[:, PRESENCE] = source.values[:, PRESENCE]
        found = Landmarks(
            values,
            is_normalized=target.is_normalized,
            has_visibility=target.has_visibility or options.copy_visibility,
            has_presence=target.has_presence or options.copy_presence,
        )
        cc.output_list[0].add(found, cc.time)


REFINEMENTS: tuple[type[Calculator], ...] = (
    LandmarksRefinementCalculator,
    RefineLandmarksFromHeatmapCalculator,
    VisibilityCopyCalculator,
)
