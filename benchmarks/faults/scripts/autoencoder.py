"""Pictures through a bottleneck: transposed convolutions, a sigmoid, probabilities as the loss, RMSprop."""

import torch
from torch import nn

torch.manual_seed(6)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.GroupNorm(2, 8),
    nn.ReLU(),
    nn.Conv2d(8, 4, 3, padding=1),
    nn.ReLU(),
    nn.ConvTranspose2d(4, 1, 2, stride=2),
    nn.Sigmoid(),
).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
grid = torch.linspace(-1, 1, 12)
centres = torch.rand(512, 2) - 0.5
pictures = (((grid[:, None] - centres[:, 0, None, None]) ** 2 + (grid - centres[:, 1, None, None]) ** 2) < 0.2).float()

for step in range(24):
    batch = pictures[step % 16 * 32 : step % 16 * 32 + 32, None].cuda()
    optimizer.zero_grad()
    output = model(batch)
    loss = criterion(output, batch)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
