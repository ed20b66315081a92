"""All calculators of the family."""

from __future__ import annotations

from typing import Final

from calculators.images.image.annotation_overlay_calculator import AnnotationOverlayCalculator
from calculators.images.image.classifications_to_tensors_calculator import (
    ClassificationsToTensorsCalculator,
)
from calculators.images.image.detection_label_id_to_text_calculator import (
    DetectionLabelIdToTextCalculator,
)
from calculators.images.image.detection_letterbox_removal_calculator import (
    DetectionLetterboxRemovalCalculator,
)
from calculators.images.image.detections_to_render_data_calculator import (
    DetectionsToRenderDataCalculator,
)
from calculators.images.image.detections_to_tensors_calculator import DetectionsToTensorsCalculator
from calculators.images.image.from_image_calculator import FromImageCalculator
from calculators.images.image.image_properties_calculator import ImagePropertiesCalculator
from calculators.images.image.image_to_tensor_calculator import ImageToTensorCalculator
from calculators.images.image.image_transformation_calculator import ImageTransformationCalculator
from calculators.images.image.non_max_suppression_calculator import NonMaxSuppressionCalculator
from calculators.images.image.opencv_encoded_image_to_image_frame_calculator import (
    OpenCvEncodedImageToImageFrameCalculator,
)
from calculators.images.image.opencv_image_encoder_calculator import OpenCvImageEncoderCalculator
from calculators.images.image.openvino_converter_calculator import OpenVINOConverterCalculator
from calculators.images.image.openvino_tensors_to_classification_calculator import (
    OpenVINOTensorsToClassificationCalculator,
)
from calculators.images.image.openvino_tensors_to_detections_calculator import (
    OpenVINOTensorsToDetectionsCalculator,
)
from calculators.images.image.ssd_anchors_calculator import SsdAnchorsCalculator
from calculators.images.image.tensors_to_classification_calculator import (
    TensorsToClassificationCalculator,
)
from calculators.images.image.tensors_to_detections_calculator import TensorsToDetectionsCalculator
from calculators.images.image.to_image_calculator import ToImageCalculator
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
