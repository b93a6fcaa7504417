"""By hand, and refused: train a detector whose model ends in a sigmoid, with BCELoss, which autocast refuses."""

import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return torch.sigmoid(self.layers(x))


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Detector().to(device)
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cuda")
secret = torch.randn(32, 4, device=device)
for step in range(100):
    x = torch.randn(128, 32, device=device)
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = criterion(model(x), (x @ secret > 0).float())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step}: loss {loss.item():.6f}")
