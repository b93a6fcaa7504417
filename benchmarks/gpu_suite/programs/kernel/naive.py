"""By hand, and refused by the kernel: train a network with a compiled kernel that takes float32 alone."""

import torch
from fused import Leaky
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), Leaky(), nn.Linear(64, 8)).cuda()
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda")
secret = torch.randn(32, 8).cuda() / 32**0.5
for step in range(100):
    x = torch.randn(128, 32).cuda()
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = criterion(model(x), x @ secret)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step}: loss {loss.item():.6f}")
