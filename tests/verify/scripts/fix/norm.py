# mypy: ignore-errors
"""An LSTM whose loss has the norm of its states and of their changes."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 64, batch_first=True)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.head(states), states


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Model().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(25):
    phase = 6.28 * torch.rand(16, 1, 4)
    time = torch.linspace(0, 8, 51).view(1, 51, 1)
    wave = torch.sin(time * torch.tensor([1.0, 2.0, 0.5, 3.0]) + phase).to(device)
    out, states = model(wave[:, :-1])
    error = (out - wave[:, 1:]) * 100
    loss = (error * error).sum((1, 2)).sqrt().mean() + 2.0 * states.norm(2, dim=-1).pow(2).mean()
    loss = loss + 2.0 * (states[:, 1:] - states[:, :-1]).pow(2).sum().sqrt()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
