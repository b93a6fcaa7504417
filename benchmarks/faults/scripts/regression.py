"""Numbers out of numbers: a perceptron, AdamW, gradients accumulated over four micro-batches and clipped."""

import torch
from torch import nn

torch.manual_seed(1)
micro = 4
model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(1024, 16)
targets = inputs[:, :4].prod(1, keepdim=True) + inputs.sum(1, keepdim=True)

optimizer.zero_grad()
for i in range(24 * micro):
    at = i * 32 % 1024
    x, y = inputs[at : at + 32].cuda(), targets[at : at + 32].cuda()
    loss = nn.functional.mse_loss(model(x), y) / micro
    loss.backward()
    if (i + 1) % micro == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
        print(i, loss.item())
