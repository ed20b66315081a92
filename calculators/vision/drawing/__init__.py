"""Landmarks, rectangles and labels as render data, and drawn on images."""
