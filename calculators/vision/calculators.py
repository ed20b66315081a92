"""All calculators of the family."""

from __future__ import annotations

from typing import Final

from calculators.vision.drawing.render_data_calculators import RENDER_DATA_CALCULATORS
from calculators.vision.filters.landmarks_smoothing_calculator import LandmarksSmoothingCalculator
from calculators.vision.filters.visibility_smoothing_calculator import (
    VisibilitySmoothingCalculator,
)
from calculators.vision.images.color_calculators import COLOR_CALCULATORS
from calculators.vision.images.cropping_calculator import ImageCroppingCalculator
from calculators.vision.images.matrix_calculators import MATRIX_CALCULATORS
from calculators.vision.images.segmentation_calculators import SEGMENTATION
from calculators.vision.images.tflite_converter_calculator import TfLiteConverterCalculator
from calculators.vision.images.tflite_segmentation_calculator import (
    TfLiteTensorsToSegmentationCalculator,
)
from calculators.vision.inference.inference_calculator import INFERENCE_CALCULATORS
from calculators.vision.inference.model_calculators import MODEL_CALCULATORS
from calculators.vision.iris.image_file_properties_calculator import ImageFilePropertiesCalculator
from calculators.vision.iris.iris_calculators import IRISES
from calculators.vision.landmarks.face_update_calculator import UpdateFaceLandmarksCalculator
from calculators.vision.landmarks.landmarks_to_tensors_calculator import (
    LandmarksToTensorsCalculator,
)
from calculators.vision.landmarks.projection_calculators import PROJECTIONS
from calculators.vision.landmarks.refinement_calculators import REFINEMENTS
from calculators.vision.landmarks.scores_calculators import SCORE_CALCULATORS
from calculators.vision.landmarks.tensors_to_landmarks_calculator import TENSORS_TO_LANDMARKS
from calculators.vision.objectron.filter_detection_calculator import FilterDetectionCalculator
from calculators.vision.objectron.frame_annotation_calculators import FRAME_ANNOTATIONS
from calculators.vision.rects.association_calculators import ASSOCIATIONS
from calculators.vision.rects.detection_projection_calculator import DetectionProjectionCalculator
from calculators.vision.rects.detections_to_rects_calculator import DETECTIONS_TO_RECTS
from calculators.vision.rects.has_min_size_calculators import HAS_MIN_SIZE
from calculators.vision.rects.landmarks_to_rects_calculators import LANDMARKS_TO_RECTS
from calculators.vision.rects.rect_transformation_calculator import RectTransformationCalculator
from calculators.vision.rects.roi_tracking_calculator import RoiTrackingCalculator
from calculators.vision.rects.tflite_detections_calculator import (
    TfLiteTensorsToDetectionsCalculator,
)
from calculators.vision.video.video_calculators import VIDEOS
from graph_runtime import Calculator

CALCULATORS: Final[tuple[type[Calculator], ...]] = (
    *ASSOCIATIONS,
    *COLOR_CALCULATORS,
    DetectionProjectionCalculator,
    *DETECTIONS_TO_RECTS,
    FilterDetectionCalculator,
    *FRAME_ANNOTATIONS,
    *HAS_MIN_SIZE,
    ImageCroppingCalculator,
    ImageFilePropertiesCalculator,
    *INFERENCE_CALCULATORS,
    *IRISES,
    *LANDMARKS_TO_RECTS,
    LandmarksSmoothingCalculator,
    LandmarksToTensorsCalculator,
    *MATRIX_CALCULATORS,
    *MODEL_CALCULATORS,
    *PROJECTIONS,
    RectTransformationCalculator,
    *REFINEMENTS,
    *RENDER_DATA_CALCULATORS,
    RoiTrackingCalculator,
    *SCORE_CALCULATORS,
    *SEGMENTATION,
    *TENSORS_TO_LANDMARKS,
    TfLiteTensorsToSegmentationCalculator,
    TfLiteConverterCalculator,
    TfLiteTensorsToDetectionsCalculator,
    UpdateFaceLandmarksCalculator,
    *VIDEOS,
    VisibilitySmoothingCalculator,
)
