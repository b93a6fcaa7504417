# mypy: ignore-errors
"""An LSTM with a norm in its loss: how little its states change from one step of time to the next."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        states, _ = self.lstm(x)
        return self.head(states), states


torch.manual_seed(0)
model = Model().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(25):
    time = torch.linspace(0, 0.004, 41).view(1, 41, 1) + 6.28 * torch.rand(16, 1, 1)
    wave = torch.sin(time * torch.tensor([1.0, 2.0, 0.5, 3.0])).cuda()
    out, states = model(wave[:, :-1])
    change = states[:, 1:] - states[:, :-1]
    loss = nn.functional.mse_loss(out, wave[:, 1:]) + 0.1 * (change * change).sum(-1).sqrt().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
