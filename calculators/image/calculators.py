"""All calculators of the family."""

from __future__ import annotations

from typing import Final

from calculators.image.annotation_overlay_calculator import AnnotationOverlayCalculator
from calculators.image.classifications_to_tensors_calculator import (
    ClassificationsToTensorsCalculator,
)
from calculators.image.detection_label_id_to_text_calculator import (
    DetectionLabelIdToTextCalculator,
)
from calculators.image.detection_letterbox_removal_calculator import (
    DetectionLetterboxRemovalCalculator,
)
from calculators.image.detections_to_render_data_calculator import (
    DetectionsToRenderDataCalculator,
)
from calculators.image.detections_to_tensors_calculator import DetectionsToTensorsCalculator
from calculators.image.from_image_calculator import FromImageCalculator
from calculators.image.image_properties_calculator import ImagePropertiesCalculator
from calculators.image.image_to_tensor_calculator import ImageToTensorCalculator
from calculators.image.image_transformation_calculator import ImageTransformationCalculator
from calculators.image.non_max_suppression_calculator import NonMaxSuppressionCalculator
from calculators.image.opencv_encoded_image_to_image_frame_calculator import (
    OpenCvEncodedImageToImageFrameCalculator,
)
from calculators.image.opencv_image_encoder_calculator import OpenCvImageEncoderCalculator
from calculators.image.openvino_converter_calculator import OpenVINOConverterCalculator
from calculators.image.openvino_tensors_to_classification_calculator import (
    OpenVINOTensorsToClassificationCalculator,
)
from calculators.image.openvino_tensors_to_detections_calculator import (
    OpenVINOTensorsToDetectionsCalculator,
)
from calculators.image.ssd_anchors_calculator import SsdAnchorsCalculator
from calculators.image.tensors_to_classification_calculator import (
    TensorsToClassificationCalculator,
)
from calculators.image.tensors_to_detections_calculator import TensorsToDetectionsCalculator
from calculators.image.to_image_calculator import ToImageCalculator
from graph_runtime import Calculator

CALCULATORS: Final[tuple[type[Calculator], ...]] = (
    AnnotationOverlayCalculator,
    ClassificationsToTensorsCalculator,
    DetectionLabelIdToTextCalculator,
    DetectionLetterboxRemovalCalculator,
    DetectionsToRenderDataCalculator,
    DetectionsToTensorsCalculator,
    FromImageCalculator,
    ImagePropertiesCalculator,
    ImageToTensorCalculator,
    ImageTransformationCalculator,
    NonMaxSuppressionCalculator,
    OpenCvEncodedImageToImageFrameCalculator,
    OpenCvImageEncoderCalculator,
    OpenVINOConverterCalculator,
    OpenVINOTensorsToClassificationCalculator,
    OpenVINOTensorsToDetectionsCalculator,
    SsdAnchorsCalculator,
    TensorsToClassificationCalculator,
    TensorsToDetectionsCalculator,
    ToImageCalculator,
)
