"""Train a network with a compiled kernel that takes float32 alone (plain float32; a GPU and nvcc are needed)."""

import torch
from fused import Leaky
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), Leaky(), nn.Linear(64, 8)).cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
secret = torch.randn(32, 8).cuda() / 32**0.5
for step in range(100):
    x = torch.randn(128, 32).cuda()
    loss = criterion(model(x), x @ secret)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.6f}")
