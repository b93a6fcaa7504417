# mypy: ignore-errors
"""A one-stage detector: widths and heights are decoded with exp, and its loss is on boxes in pixels."""

import torch
import torch.nn.functional as F
from torch import nn


def decode(raw, stride):
    _, _, h, w = raw.shape
    ys, xs = torch.meshgrid(torch.arange(h, device=raw.device), torch.arange(w, device=raw.device), indexing="ij")
    x = (torch.sigmoid(raw[:, 0]) + xs) * stride
    y = (torch.sigmoid(raw[:, 1]) + ys) * stride
    wide, high = torch.exp(raw[:, 2]) * stride, torch.exp(raw[:, 3]) * stride
    return torch.stack((x - wide / 2, y - high / 2, x + wide / 2, y + high / 2), 1), raw[:, 4]


def iou(a, b):
    left, top = torch.max(a[:, 0], b[:, 0]), torch.max(a[:, 1], b[:, 1])
    right, bottom = torch.min(a[:, 2], b[:, 2]), torch.min(a[:, 3], b[:, 3])
    inside = (right - left).clamp(min=0) * (bottom - top).clamp(min=0)
    whole = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1]) + (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) - inside
    return inside / (whole + 1e-9)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, x):
        return self.head(self.body(x))


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Detector().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
for step in range(25):
    low = torch.randint(0, 300, (4, 2))
    size = torch.randint(100, 300, (4, 2))
    images = torch.zeros(4, 3, 96, 96)
    boxes = torch.cat((low, low + size), 1).float()
    for image, box in zip(images, (boxes / 6).long(), strict=True):
        image[:, box[1] : box[3], box[0] : box[2]] = 1
    images, boxes = images.to(device), boxes.to(device)
    decoded, objectness = decode(model(images), 48)
    target = boxes[:, :, None, None].expand_as(decoded)
    overlap = iou(decoded, target)
    box_loss = (1 - overlap).mean() + 1e-4 * F.l1_loss(decoded, target)
    loss = box_loss + F.binary_cross_entropy_with_logits(objectness, (overlap.detach() > 0.5).float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
