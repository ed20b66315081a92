"""The network: a few convolutions with two heads, as in SSD."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .anchors import PER_PLACE
from .pictures import LABELS


def _step(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Detector(nn.Module):
    """Maps (n, height, width, 3) from -1 to 1 to corrections (n, 360, 4) and scores (n, 360, 3).

    A score is a probability after the logistic function.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            _step(3, 16, 2), _step(16, 32, 2), _step(32, 64, 2), _step(64, 64, 1)
        )
        self.coarse = nn.Sequential(_step(64, 96, 2), _step(96, 96, 1))
        self.boxes = nn.ModuleList(nn.Conv2d(n, PER_PLACE * 4, 3, 1, 1) for n in (64, 96))
        self.scores = nn.ModuleList(
            nn.Conv2d(n, PER_PLACE * len(LABELS), 3, 1, 1) for n in (64, 96)
        )
        for head in self.scores:
            assert isinstance(head, nn.Conv2d)
            assert head.bias is not None
            nn.init.constant_(head.bias, -4.0)  # at first, there is nothing anywhere

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(image.permute(0, 3, 1, 2))
        maps = (fine, self.coarse(fine))
        return _join(self.boxes, maps, 4), _join(self.scores, maps, len(LABELS))


def _join(heads: nn.ModuleList, maps: tuple[Tensor, Tensor], width: int) -> Tensor:
    found = [
        head(map_).permute(0, 2, 3, 1).reshape(map_.shape[0], -1, width)
        for head, map_ in zip(heads, maps, strict=True)
    ]
    return torch.cat(found, dim=1)
