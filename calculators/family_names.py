"""The node types of families that are imported when a graph names one of them.

A test compares them with what the families register.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Calculators and subgraphs, by the family's package.
NAMES: Final[Mapping[str, frozenset[str]]] = {
    "calculators.answer_cache": frozenset(
        {
            "AnswerCacheCalculator",
        }
    ),
    "calculators.ensemble": frozenset(
        {
            "CommonAnswerCalculator",
            "JudgeCalculator",
        }
    ),
    "calculators.image": frozenset(
        {
            "AnnotationOverlayCalculator",
            "ClassificationsToTensorsCalculator",
            "DetectionLabelIdToTextCalculator",
            "DetectionLetterboxRemovalCalculator",
            "DetectionsToRenderDataCalculator",
            "DetectionsToTensorsCalculator",
            "FromImageCalculator",
            "ImagePropertiesCalculator",
            "ImageToTensorCalculator",
            "ImageTransformationCalculator",
            "NonMaxSuppressionCalculator",
            "OpenCvEncodedImageToImageFrameCalculator",
            "OpenCvImageEncoderCalculator",
            "OpenVINOConverterCalculator",
            "OpenVINOTensorsToClassificationCalculator",
            "OpenVINOTensorsToDetectionsCalculator",
            "SsdAnchorsCalculator",
            "TensorsToClassificationCalculator",
            "TensorsToDetectionsCalculator",
            "ToImageCalculator",
        }
    ),
    "calculators.moderation": frozenset(
        {
            "ModerationCalculator",
        }
    ),
    "calculators.openvino": frozenset(
        {
            "OpenVINOInferenceCalculator",
            "OpenVINOModelServerSessionCalculator",
        }
    ),
    "calculators.python": frozenset(
        {
            "PyTensorOvTensorConverterCalculator",
            "PythonExecutorCalculator",
        }
    ),
    "calculators.redaction": frozenset(
        {
            "RedactCalculator",
        }
    ),
    "calculators.retrieval": frozenset(
        {
            "RetrievalCalculator",
        }
    ),
    "calculators.routing": frozenset(
        {
            "FallbackCalculator",
            "FirstAnswerCalculator",
            "RouterCalculator",
        }
    ),
    "calculators.server_tools": frozenset(
        {
            "OfferToolsCalculator",
            "ToolsCalculator",
        }
    ),
    "calculators.vision": frozenset(
        {
            "AlignmentPointsRectsCalculator",
            "AssociationDetectionCalculator",
            "AssociationNormRectCalculator",
            "ClassificationListVectorHasMinSizeCalculator",
            "DetectionProjectionCalculator",
            "DetectionVectorHasMinSizeCalculator",
            "DetectionsToRectsCalculator",
            "FaceDetection",
            "FaceDetectionFrontDetectionToRoi",
            "FaceDetectionFrontDetectionsToRoi",
            "FaceDetectionFullRange",
            "FaceDetectionFullRangeCpu",
            "FaceDetectionFullRangeImage",
            "FaceDetectionShortRange",
            "FaceDetectionShortRangeByRoiCpu",
            "FaceDetectionShortRangeCpu",
            "FaceDetectionShortRangeImage",
            "FaceDetectionWithoutRoi",
            "FaceLandmarkCpu",
            "FaceLandmarkFrontCpu",
            "FaceLandmarkFrontCpuImage",
            "FaceLandmarkLandmarksToRoi",
            "FaceLandmarksFromPoseCpu",
            "FaceLandmarksFromPoseToRecropRoi",
            "FaceLandmarksModelLoader",
            "FaceLandmarksToRenderDataCalculator",
            "FaceLandmarksToRoi",
            "FaceTracking",
            "HandDetectionsFromPoseToRectsCalculator",
            "HandLandmarkCpu",
            "HandLandmarkLandmarksToRoi",
            "HandLandmarkModelLoader",
            "HandLandmarkTrackingCpu",
            "HandLandmarkTrackingCpuImage",
            "HandLandmarksFromPoseCpu",
            "HandLandmarksFromPoseToRecropRoi",
            "HandLandmarksLeftAndRightCpu",
            "HandLandmarksToRectCalculator",
            "HandLandmarksToRoi",
            "HandRecropByRoiCpu",
            "HandTracking",
            "HandVisibilityFromHandLandmarksFromPose",
            "HandWristForPose",
            "HolisticLandmarkCpu",
            "ImageCroppingCalculator",
            "InferenceCalculator",
            "InferenceCalculatorCpu",
            "InferenceCalculatorXnnpack",
            "InverseMatrixCalculator",
            "IrisLandmarkCpu",
            "IrisLandmarkLandmarksToRoi",
            "IrisLandmarkLeftAndRightCpu",
            "LabelsToRenderDataCalculator",
            "LandmarkLetterboxRemovalCalculator",
            "LandmarkProjectionCalculator",
            "LandmarkVisibilityCalculator",
            "LandmarksRefinementCalculator",
            "LandmarksSmoothingCalculator",
            "LandmarksToDetectionCalculator",
            "LandmarksToRenderDataCalculator",
            "LocalFileContentsCalculator",
            "NormalizedLandmarkListVectorHasMinSizeCalculator",
            "NormalizedRectVectorHasMinSizeCalculator",
            "OpenCvVideoDecoderCalculator",
            "OpenCvVideoEncoderCalculator",
            "PalmDetectionCpu",
            "PalmDetectionDetectionToRoi",
            "PalmDetectionModelLoader",
            "PoseDetectionCpu",
            "PoseDetectionToRoi",
            "PoseLandmarkByRoiCpu",
            "PoseLandmarkCpu",
            "PoseLandmarkFiltering",
            "PoseLandmarkModelLoader",
            "PoseLandmarksAndSegmentationInverseProjection",
            "PoseLandmarksToRoi",
            "PoseSegmentationFiltering",
            "RecolorCalculator",
            "RectToRenderDataCalculator",
            "RectToRenderScaleCalculator",
            "RectTransformationCalculator",
            "RefineLandmarksFromHeatmapCalculator",
            "ResourceProviderCalculator",
            "RoiTrackingCalculator",
            "SegmentationSmoothingCalculator",
            "SelfieSegmentationCpu",
            "SelfieSegmentationCpuImage",
            "SelfieSegmentationModelLoader",
            "SetLandmarkVisibilityCalculator",
            "TensorsToFaceLandmarks",
            "TensorsToFaceLandmarksWithAttention",
            "TensorsToFloatsCalculator",
            "TensorsToLandmarksCalculator",
            "TensorsToPoseLandmarksAndSegmentation",
            "TensorsToSegmentationCalculator",
            "TfLiteConverterCalculator",
            "TfLiteCustomOpResolverCalculator",
            "TfLiteInferenceCalculator",
            "TfLiteModelCalculator",
            "TfLiteTensorsToLandmarksCalculator",
            "ThresholdingCalculator",
            "UpdateFaceLandmarksCalculator",
            "VisibilityCopyCalculator",
            "VisibilitySmoothingCalculator",
            "WarpAffineCalculator",
            "WarpAffineCalculatorCpu",
            "WorldLandmarkProjectionCalculator",
        }
    ),
}
