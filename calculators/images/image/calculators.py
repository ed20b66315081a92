"""All calculators of the family."""

from __future__ import annotations

from typing import Final

from calculators.images.image.anchors import SsdAnchorsCalculator
from calculators.images.image.classification import (
    ClassificationsToTensorsCalculator,
    OpenVINOTensorsToClassificationCalculator,
    TensorsToClassificationCalculator,
)
from calculators.images.image.detections import (
    DetectionLabelIdToTextCalculator,
    DetectionLetterboxRemovalCalculator,
    DetectionsToTensorsCalculator,
)
from calculators.images.image.drawing import (
    AnnotationOverlayCalculator,
    DetectionsToRenderDataCalculator,
)
from calculators.images.image.image_calculators import (
    FromImageCalculator,
    ImageCloneCalculator,
    ImagePropertiesCalculator,
    ImageTransformationCalculator,
    OpenCvEncodedImageToImageFrameCalculator,
    OpenCvImageEncoderCalculator,
    OpenCvPutTextCalculator,
    ToImageCalculator,
)
from calculators.images.image.image_tensors import (
    ImageToTensorCalculator,
    OpenVINOConverterCalculator,
)
from calculators.images.image.non_max_suppression_calculator import NonMaxSuppressionCalculator
from calculators.images.image.tensors_to_detections import (
    OpenVINOTensorsToDetectionsCalculator,
    TensorsToDetectionsCalculator,
)
from graph_runtime import Calculator

CALCULATORS: Final[tuple[type[Calculator], ...]] = (
    AnnotationOverlayCalculator,
    ClassificationsToTensorsCalculator,
    DetectionLabelIdToTextCalculator,
    DetectionLetterboxRemovalCalculator,
    DetectionsToRenderDataCalculator,
    DetectionsToTensorsCalculator,
    FromImageCalculator,
    ImageCloneCalculator,
    ImagePropertiesCalculator,
    ImageToTensorCalculator,
    ImageTransformationCalculator,
    NonMaxSuppressionCalculator,
    OpenCvEncodedImageToImageFrameCalculator,
    OpenCvImageEncoderCalculator,
    OpenCvPutTextCalculator,
    OpenVINOConverterCalculator,
    OpenVINOTensorsToClassificationCalculator,
    OpenVINOTensorsToDetectionsCalculator,
    SsdAnchorsCalculator,
    TensorsToClassificationCalculator,
    TensorsToDetectionsCalculator,
    ToImageCalculator,
)
