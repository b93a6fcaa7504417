"""Train a refiner that first takes a step without gradients, with the weights that it then trains (plain float32).

Autocast keeps the half copy that it has made of a weight for the rest of its region; before PyTorch 2.11 one that was
made under `no_grad()` carries no gradient.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Refiner(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))

    def forward(self, x):
        with torch.no_grad():
            x = x - 0.1 * self.layers(x)
        return self.layers(x)


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Refiner().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
secret = torch.randn(32, 32, device=device) / 32**0.5
for step in range(100):
    x = torch.randn(128, 32, device=device)
    loss = F.mse_loss(model(x), x @ secret)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.6f}")
