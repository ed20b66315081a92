"""Limits of the images in a request."""

from __future__ import annotations

from typing import Final

#: Images in a request, images of earlier messages included.
MAX_IMAGES: Final = 16
#: Size of one image file, in bytes; OpenVINO Model Server's limit for downloads.
MAX_IMAGE_BYTES: Final = 20_000_000
#: Size of all image files of a request, in bytes: one message to the prompt process holds them.
MAX_REQUEST_BYTES: Final = 64_000_000
#: Pixels of one image; read from the file's header, before anything is decoded.
MAX_PIXELS: Final = 25_000_000
#: Pixels of a JPEG times its scans: a file may have any number of scans of a few bytes, each of
#: which passes over all pixels.
MAX_SCANNED_PIXELS: Final = 1_000_000_000
#: Pixels of all images of a request, counted once for each answer, as the engine gets them.
MAX_REQUEST_PIXELS: Final = 50_000_000
#: Pixels of all images of a request above which the large ones are reduced by whole factors before
#: a model gets them: models make less of them themselves, and their bytes pass three processes.
MAX_SENT_PIXELS: Final = 16_000_000
#: Models cut images into squares, and refuse or misread an image that is nearly a line.
MAX_RATIO: Final = 200
