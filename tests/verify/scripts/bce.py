# mypy: ignore-errors
"""A network that ends in a sigmoid, under a loss of probabilities, in float32."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 8).cuda()
y = (x.sum(1, keepdim=True) > 0).float()

for _ in range(24):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
