"""The classes of MediaPipe's Python API: the same arguments and results, and arrays besides.

Landmarks are `Landmarks`: ``result.pose_landmarks.values`` is an array, and
``result.pose_landmarks.landmark[0].x`` reads as in MediaPipe.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calculators.vision.landmarks.landmarks import PRESENCE, Landmarks
from calculators.vision.solution import Solution, mask_of

Mask = npt.NDArray[np.float32]

#: Options that MediaPipe's Python API loses on the way to its engine: it has no class of the
#: options' messages, so the engine runs with the defaults.
_LOST_OPTIONS = {
    "poselandmarkbyroicpu__tensorstoposelandmarksandsegmentation__"
    "RefineLandmarksFromHeatmapCalculator.kernel_size": 9,
    "posesegmentationfiltering__SegmentationSmoothingCalculator.combine_with_previous_ratio": 0.0,
}


class FaceDetections(NamedTuple):
    """The results of `FaceDetection`.

    Attributes:
        detections: mediapipe.Detection messages: a score, a relative box, six keypoints (right eye,
            left eye, nose, mouth, right ear, left ear). None without a face.
    """

    detections: list[Any] | None


class FaceDetection(Solution[FaceDetections]):
    """Faces, with six keypoints each. Every image is seen for itself."""

    def __init__(
        self, min_detection_confidence: float | None = None, model_selection: int = 0
    ) -> None:
        """
        Args:
            min_detection_confidence: faces with a lower score are left out. The graph's own, 0.5 or
                0.6 for model_selection 1, unless given; MediaPipe's Python API has the graph's own
                whatever is given.
            model_selection: 0: faces within two meters; 1: within five.
        """
        _check_choice("model_selection", model_selection, (0, 1))
        kind = "FullRange" if model_selection else "ShortRange"
        node = f"facedetection{kind.lower()}__facedetection__TensorsToDetectionsCalculator"
        super().__init__(
            f"FaceDetection{kind}Cpu",
            {"detections": "detections"},
            {},
            {}
            if min_detection_confidence is None
            else {
                f"{node}.min_score_thresh": _fraction(
                    "min_detection_confidence", min_detection_confidence
                )
            },
            is_stateless=True,
        )

    def _result(self, found: dict[str, Any]) -> FaceDetections:
        return FaceDetections(**found)


class FaceMeshes(NamedTuple):
    """The results of `FaceMesh`.

    Attributes:
        multi_face_landmarks: 468 or 478 landmarks per face. None without a face.
        detections: of faces that are new in this image, or None.
        rects: mediapipe.NormalizedRect messages: the faces' regions in the next image, or None.
        detection_rects: the regions of the detections, or None.
    """

    multi_face_landmarks: list[Landmarks] | None
    detections: list[Any] | None
    rects: list[Any] | None
    detection_rects: list[Any] | None


class FaceMesh(Solution[FaceMeshes]):
    """The landmarks of faces, which are followed from image to image."""

    def __init__(
        self,
        static_image_mode: bool = False,
        max_num_faces: int = 1,
        refine_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        """
        Args:
            static_image_mode: images have nothing to do with one another: nobody is followed.
            max_num_faces: at least 1.
            refine_landmarks: 478 landmarks rather than 468, with irises and exacter lips and eyes.
            min_detection_confidence: detections with a lower score are left out.
            min_tracking_confidence: below it a face is lost, and the detector runs again.
        """
        static_image_mode = _flag("static_image_mode", static_image_mode)
        refine_landmarks = _flag("refine_landmarks", refine_landmarks)
        detector = (
            "facedetectionshortrangecpu__facedetectionshortrange__facedetection__"
            "TensorsToDetectionsCalculator"
        )
        super().__init__(
            "FaceLandmarkFrontCpu",
            {
                "multi_face_landmarks": "multi_face_landmarks",
                "detections": "face_detections",
                "rects": "face_rects_from_landmarks",
                "detection_rects": "face_rects_from_detections",
            },
            {
                "num_faces": _count("max_num_faces", max_num_faces),
                "use_prev_landmarks": not static_image_mode,
                "with_attention": refine_landmarks,
            },
            {
                f"{detector}.min_score_thresh": _fraction(
                    "min_detection_confidence", min_detection_confidence
                ),
                "facelandmarkcpu__ThresholdingCalculator.threshold": _fraction(
                    "min_tracking_confidence", min_tracking_confidence
                ),
            },
            is_stateless=static_image_mode,
        )

    def _result(self, found: dict[str, Any]) -> FaceMeshes:
        return FaceMeshes(**found)


class HandLandmarks(NamedTuple):
    """The results of `Hands`.

    Attributes:
        multi_hand_landmarks: 21 landmarks per hand. None without a hand.
        multi_hand_world_landmarks: the same in meters, from the hand's middle.
        multi_handedness: mediapipe.ClassificationList messages, "Left" or "Right" of a mirrored
            image, with a score.
        detections: of palms that are new in this image, or None.
        rects: mediapipe.NormalizedRect messages: the hands' regions in the next image, or None.
        detection_rects: the regions of the detections, or None.
    """

    multi_hand_landmarks: list[Landmarks] | None
    multi_hand_world_landmarks: list[Landmarks] | None
    multi_handedness: list[Any] | None
    detections: list[Any] | None
    rects: list[Any] | None
    detection_rects: list[Any] | None


class Hands(Solution[HandLandmarks]):
    """The landmarks of hands, which are followed from image to image."""

    def __init__(
        self,
        static_image_mode: bool = False,
        max_num_hands: int = 2,
        model_complexity: int = 1,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
    ) -> None:
        """
        Args:
            static_image_mode: images have nothing to do with one another: nobody is followed.
            max_num_hands: at least 1.
            model_complexity: 0: quicker; 1: more exact.
            min_detection_confidence: detections with a lower score are left out.
            min_tracking_confidence: below it a hand is lost, and the detector runs again.
        """
        static_image_mode = _flag("static_image_mode", static_image_mode)
        _check_choice("model_complexity", model_complexity, (0, 1))
        super().__init__(
            "HandLandmarkTrackingCpu",
            {
                "multi_hand_landmarks": "multi_hand_landmarks",
                "multi_hand_world_landmarks": "multi_hand_world_landmarks",
                "multi_handedness": "multi_handedness",
                "detections": "palm_detections",
                "rects": "hand_rects_from_landmarks",
                "detection_rects": "hand_rects_from_palm_detections",
            },
            {
                "num_hands": _count("max_num_hands", max_num_hands),
                "model_complexity": model_complexity,
                "use_prev_landmarks": not static_image_mode,
            },
            {
                "palmdetectioncpu__TensorsToDetectionsCalculator.min_score_thresh": _fraction(
                    "min_detection_confidence", min_detection_confidence
                ),
                "handlandmarkcpu__ThresholdingCalculator.threshold": _fraction(
                    "min_tracking_confidence", min_tracking_confidence
                ),
            },
            is_stateless=static_image_mode,
        )

    def _result(self, found: dict[str, Any]) -> HandLandmarks:
        return HandLandmarks(**found)


class PoseLandmarks(NamedTuple):
    """The results of `Pose`.

    Attributes:
        pose_landmarks: 33 landmarks with visibility. None if nobody was found.
        pose_world_landmarks: the same in meters, from the middle of the hips.
        segmentation_mask: (height, width) of float32, 1 where the person is; None if not enabled.
        detection: mediapipe.Detection of a person who is new in this image, or None.
        rect: mediapipe.NormalizedRect: the person's region in the next image, or None.
        detection_rect: the region of the detection, or None.
    """

    pose_landmarks: Landmarks | None
    pose_world_landmarks: Landmarks | None
    segmentation_mask: Mask | None
    detection: Any
    rect: Any
    detection_rect: Any


class Pose(Solution[PoseLandmarks]):
    """The landmarks of one person, who is followed from image to image."""

    def __init__(
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        smooth_segmentation: bool = True,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        follows_graph: bool = False,
    ) -> None:
        """
        Args:
            static_image_mode: images have nothing to do with one another: nobody is followed.
            model_complexity: 0, 1 or 2: the light, full or heavy model. MediaPipe's wheel brings
                the full one.
            smooth_landmarks: landmarks tremble less; not in static_image_mode.
            enable_segmentation: make a mask of the person.
            smooth_segmentation: the mask flickers less; not in static_image_mode.
            min_detection_confidence: detections with a lower score are left out.
            min_tracking_confidence: below it the person is lost, and the detector runs again.
            follows_graph: all options come from the graph. MediaPipe's Python API loses two of
                them: landmarks are refined in a larger window, and masks are not smoothed.
        """
        static_image_mode = _flag("static_image_mode", static_image_mode)
        smooth_landmarks = _flag("smooth_landmarks", smooth_landmarks)
        enable_segmentation = _flag("enable_segmentation", enable_segmentation)
        smooth_segmentation = _flag("smooth_segmentation", smooth_segmentation)
        follows_graph = _flag("follows_graph", follows_graph)
        _check_choice("model_complexity", model_complexity, (0, 1, 2))
        landmarks = "poselandmarkbyroicpu__tensorstoposelandmarksandsegmentation"
        super().__init__(
            "PoseLandmarkCpu",
            {
                "pose_landmarks": "pose_landmarks",
                "pose_world_landmarks": "pose_world_landmarks",
                "segmentation_mask": "segmentation_mask",
                "detection": "pose_detection",
                "rect": "pose_rect_from_landmarks",
                "detection_rect": "pose_rect_from_detection",
            },
            {
                "model_complexity": model_complexity,
                "smooth_landmarks": smooth_landmarks and not static_image_mode,
                "enable_segmentation": enable_segmentation,
                "smooth_segmentation": smooth_segmentation and not static_image_mode,
                "use_prev_landmarks": not static_image_mode,
            },
            {
                "posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh": _fraction(
                    "min_detection_confidence", min_detection_confidence
                ),
                f"{landmarks}__ThresholdingCalculator.threshold": _fraction(
                    "min_tracking_confidence", min_tracking_confidence
                ),
                **({} if follows_graph else _LOST_OPTIONS),
            },
            is_stateless=static_image_mode,
        )

    def _result(self, found: dict[str, Any]) -> PoseLandmarks:
        found["segmentation_mask"] = mask_of(found["segmentation_mask"])
        return PoseLandmarks(**_without_presence(found))


class Segmentation(NamedTuple):
    """The results of `SelfieSegmentation`.

    Attributes:
        segmentation_mask: (height, width) of float32, 1 where people are.
    """

    segmentation_mask: Mask | None


class SelfieSegmentation(Solution[Segmentation]):
    """A mask of the people in an image. Every image is seen for itself."""

    def __init__(self, model_selection: int = 0) -> None:
        """
        Args:
            model_selection: 0: the model of square images; 1: of wide ones, which is quicker.
        """
        _check_choice("model_selection", model_selection, (0, 1))
        super().__init__(
            "SelfieSegmentationCpu",
            {"segmentation_mask": "segmentation_mask"},
            {"model_selection": model_selection},
            {},
            is_stateless=True,
        )

    def _result(self, found: dict[str, Any]) -> Segmentation:
        return Segmentation(mask_of(found["segmentation_mask"]))


class HolisticLandmarks(NamedTuple):
    """The results of `Holistic`.

    Attributes:
        pose_landmarks: 33 landmarks with visibility. None if nobody was found.
        pose_world_landmarks: the same in meters, from the middle of the hips.
        left_hand_landmarks, right_hand_landmarks: 21 landmarks, or None.
        face_landmarks: 468 or 478 landmarks, or None.
        segmentation_mask: (height, width) of float32, 1 where the person is; None if not enabled.
        detection: mediapipe.Detection of a person who is new in this image, or None.
        rect: mediapipe.NormalizedRect: the person's region in the next image, or None.
    """

    pose_landmarks: Landmarks | None
    pose_world_landmarks: Landmarks | None
    left_hand_landmarks: Landmarks | None
    right_hand_landmarks: Landmarks | None
    face_landmarks: Landmarks | None
    segmentation_mask: Mask | None
    detection: Any
    rect: Any


class Holistic(Solution[HolisticLandmarks]):
    """Pose, hands and face of one person, who is followed from image to image."""

    def __init__(
        self,
        static_image_mode: bool = False,
        model_complexity: int = 1,
        smooth_landmarks: bool = True,
        enable_segmentation: bool = False,
        smooth_segmentation: bool = True,
        refine_face_landmarks: bool = False,
        min_detection_confidence: float = 0.5,
        min_tracking_confidence: float = 0.5,
        *,
        follows_graph: bool = False,
    ) -> None:
        """Arguments as for `Pose`; refine_face_landmarks as for `FaceMesh`."""
        static_image_mode = _flag("static_image_mode", static_image_mode)
        smooth_landmarks = _flag("smooth_landmarks", smooth_landmarks)
        enable_segmentation = _flag("enable_segmentation", enable_segmentation)
        smooth_segmentation = _flag("smooth_segmentation", smooth_segmentation)
        refine_face_landmarks = _flag("refine_face_landmarks", refine_face_landmarks)
        follows_graph = _flag("follows_graph", follows_graph)
        _check_choice("model_complexity", model_complexity, (0, 1, 2))
        pose = "poselandmarkcpu__"
        landmarks = f"{pose}poselandmarkbyroicpu__tensorstoposelandmarksandsegmentation"
        lost = {} if follows_graph else {pose + name: v for name, v in _LOST_OPTIONS.items()}
        super().__init__(
            "HolisticLandmarkCpu",
            {
                "pose_landmarks": "pose_landmarks",
                "pose_world_landmarks": "pose_world_landmarks",
                "left_hand_landmarks": "left_hand_landmarks",
                "right_hand_landmarks": "right_hand_landmarks",
                "face_landmarks": "face_landmarks",
                "segmentation_mask": "segmentation_mask",
                "detection": "pose_detection",
                "rect": "pose_landmarks_roi",
            },
            {
                "model_complexity": model_complexity,
                "smooth_landmarks": smooth_landmarks and not static_image_mode,
                "enable_segmentation": enable_segmentation,
                "smooth_segmentation": smooth_segmentation and not static_image_mode,
                "refine_face_landmarks": refine_face_landmarks,
                "use_prev_landmarks": not static_image_mode,
            },
            {
                f"{pose}posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh": (
                    _fraction("min_detection_confidence", min_detection_confidence)
                ),
                f"{landmarks}__ThresholdingCalculator.threshold": _fraction(
                    "min_tracking_confidence", min_tracking_confidence
                ),
                **lost,
            },
            is_stateless=static_image_mode and not follows_graph,
            has_branches=True,
        )

    def _result(self, found: dict[str, Any]) -> HolisticLandmarks:
        found["segmentation_mask"] = mask_of(found["segmentation_mask"])
        return HolisticLandmarks(**_without_presence(found))


def _without_presence(found: dict[str, Any]) -> dict[str, Any]:
    """Return the results as MediaPipe's Python API gives them: poses have no presence."""
    for name in ("pose_landmarks", "pose_world_landmarks"):
        pose: Landmarks | None = found[name]
        if pose is not None and pose.has_presence:
            values = pose.values.copy()
            values[:, PRESENCE] = 0
            found[name] = Landmarks(
                values, is_normalized=pose.is_normalized, has_visibility=pose.has_visibility
            )
    return found


def _flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, int) and value in (0, 1)):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return bool(value)


def _fraction(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is a number from 0 to 1, not {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is from 0 to 1, not {value}")
    return float(value)


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is an integer, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} is at least 1, not {value}")
    return int(value)


def _check_choice(name: str, value: int, choices: tuple[int, ...]) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value not in choices:
        raise ValueError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}")
