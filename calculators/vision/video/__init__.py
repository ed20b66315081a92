"""Video files as streams of frames, and back."""
