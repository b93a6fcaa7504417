# mypy: ignore-errors
"""A small convolutional classifier on made-up pictures, in float16 with a loss scale."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=24)
args = parser.parse_args()

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(8 * 64, 10),
).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")

pictures = torch.randn(256, 3, 8, 8)
labels = (pictures.mean((1, 2, 3)) * 40).round().clamp(-4, 5).long() + 4

for step in range(args.steps):
    at = step * 32 % 256
    x, y = pictures[at : at + 32].to(device), labels[at : at + 32].cuda()
    optimizer.zero_grad()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = criterion(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(step, loss.item())
