"""Rectangles of regions: from detections and landmarks, moved, scaled, compared."""
