"""Two networks against each other, with an optimizer each."""

import torch
from torch import nn

torch.manual_seed(2)
device = "cuda"
generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16)).to(device)
discriminator = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).to(device)
criterion = nn.BCEWithLogitsLoss()
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
data = torch.randn(2048, 16) * torch.linspace(0.1, 2.0, 16)

for step in range(24):
    real = data[step * 64 : step * 64 + 64].to(device)
    noise = torch.randn(64, 8, device=device)
    ones, zeros = torch.ones(64, 1, device=device), torch.zeros(64, 1, device=device)

    optimizer_d.zero_grad()
    fake = generator(noise)
    loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(discriminator(fake), ones)
    loss_g.backward()
    optimizer_g.step()
    print(step, loss_d.item(), loss_g.item())
