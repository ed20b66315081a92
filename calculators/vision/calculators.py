"""All calculators of the family."""

from __future__ import annotations

from typing import Final

from calculators.vision.drawing import render_data_calculators
from calculators.vision.filters.landmarks_smoothing_calculator import LandmarksSmoothingCalculator
from calculators.vision.filters.visibility_smoothing_calculator import (
    VisibilitySmoothingCalculator,
)
from calculators.vision.images import (
    color_calculators,
    matrix_calculators,
    segmentation_calculators,
    tflite_segmentation_calculator,
)
from calculators.vision.images.cropping_calculator import ImageCroppingCalculator
from calculators.vision.images.tflite_converter_calculator import TfLiteConverterCalculator
from calculators.vision.inference import inference_calculator, model_calculators
from calculators.vision.iris import iris_calculators
from calculators.vision.iris.image_file_properties_calculator import ImageFilePropertiesCalculator
from calculators.vision.landmarks import (
    projection_calculators,
    refinement_calculators,
    scores_calculators,
    tensors_to_landmarks_calculator,
)
from calculators.vision.landmarks.face_update_calculator import UpdateFaceLandmarksCalculator
from calculators.vision.landmarks.landmarks_to_tensors_calculator import (
    LandmarksToTensorsCalculator,
)
from calculators.vision.objectron import frame_annotation_calculators
from calculators.vision.objectron.filter_detection_calculator import FilterDetectionCalculator
from calculators.vision.rects import (
    association_calculators,
    detections_to_rects_calculator,
    has_min_size_calculators,
    landmarks_to_rects_calculators,
)
from calculators.vision.rects.detection_projection_calculator import DetectionProjectionCalculator
from calculators.vision.rects.rect_transformation_calculator import RectTransformationCalculator
from calculators.vision.rects.roi_tracking_calculator import RoiTrackingCalculator
from calculators.vision.rects.tflite_detections_calculator import (
    TfLiteTensorsToDetectionsCalculator,
)
from calculators.vision.video import video_calculators
from graph_runtime import Calculator

CALCULATORS: Final[tuple[type[Calculator], ...]] = (
    *association_calculators.CALCULATORS,
    *color_calculators.CALCULATORS,
    DetectionProjectionCalculator,
    *detections_to_rects_calculator.CALCULATORS,
    FilterDetectionCalculator,
    *frame_annotation_calculators.CALCULATORS,
    *has_min_size_calculators.CALCULATORS,
    ImageCroppingCalculator,
    ImageFilePropertiesCalculator,
    *inference_calculator.CALCULATORS,
    *iris_calculators.CALCULATORS,
    *landmarks_to_rects_calculators.CALCULATORS,
    LandmarksSmoothingCalculator,
    LandmarksToTensorsCalculator,
    *matrix_calculators.CALCULATORS,
    *model_calculators.CALCULATORS,
    *projection_calculators.CALCULATORS,
    RectTransformationCalculator,
    *refinement_calculators.CALCULATORS,
    *render_data_calculators.CALCULATORS,
    RoiTrackingCalculator,
    *scores_calculators.CALCULATORS,
    *segmentation_calculators.CALCULATORS,
    *tensors_to_landmarks_calculator.CALCULATORS,
    *tflite_segmentation_calculator.CALCULATORS,
    TfLiteConverterCalculator,
    TfLiteTensorsToDetectionsCalculator,
    UpdateFaceLandmarksCalculator,
    *video_calculators.CALCULATORS,
    VisibilitySmoothingCalculator,
)
