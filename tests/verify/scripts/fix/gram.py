# mypy: ignore-errors
"""Style transfer: the image is what is trained, by Gram matrices of a frozen network's features."""

import torch
import torch.nn.functional as F
from torch import nn


def gram(x):
    b, c, h, w = x.shape
    f = x.view(b, c, h * w)
    return f @ f.transpose(1, 2)


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 64, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.first(x))
        return a, F.relu(self.second(F.max_pool2d(a, 2)))


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 3, 3, padding=1))

    def forward(self, x):
        return 255 * torch.sigmoid(self.net(x / 255))


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
features = Features().to(device).eval()
for p in features.parameters():
    p.requires_grad_(False)
model = Transfer().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
style = 255 * torch.rand(1, 3, 64, 64, device=device)
with torch.no_grad():
    wanted = [gram(f) / f.numel() for f in features(style)]
for step in range(25):
    x = 255 * torch.rand(2, 3, 64, 64, device=device)
    y = model(x)
    got = features(y)
    loss = 0
    for f, g in zip(got, wanted, strict=True):
        loss = loss + F.mse_loss(gram(f) / f.numel(), g.expand(2, -1, -1))
    loss = loss + 1e-3 * F.mse_loss(y, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
