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
#: Pixels of all images of a request, counted once for each answer, as the engine gets them.
MAX_REQUEST_PIXELS: Final = 50_000_000
#: Pixels above which an image is reduced by a whole factor before a model gets it: models make less
#: of it themselves, and its bytes pass three processes.
MAX_SENT_PIXELS: Final = 16_000_000
#: Models cut images into squares, and refuse or misread an image that is nearly a line.
MAX_RATIO: Final = 200
