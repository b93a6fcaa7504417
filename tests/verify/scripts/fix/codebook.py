# mypy: ignore-errors
"""A VQ-VAE on synthetic images: the codebook is a buffer, moved by averages of what the encoder gives."""

import torch
import torch.nn.functional as F
from torch import nn


class Codebook(nn.Module):
    def __init__(self, count=64, width=32, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(width, count))
        self.register_buffer("sizes", torch.zeros(count))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codes + self.codes.pow(2).sum(0, keepdim=True)
        index = distance.argmin(1)
        chosen = F.one_hot(index, self.codes.shape[1]).type(flat.dtype)
        quantized = F.embedding(index, self.codes.t()).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        if self.training:
            self.sizes.mul_(self.decay).add_(chosen.sum(0), alpha=1 - self.decay)
            self.sums.mul_(self.decay).add_((flat.t() @ chosen).detach(), alpha=1 - self.decay)
            total = self.sizes.sum()
            sizes = (self.sizes + 1e-5) / (total + 64e-5) * total
            self.codes.copy_(self.sums / sizes.unsqueeze(0))
        commitment = (quantized.detach() - z).pow(2).mean()
        return z + (quantized - z).detach(), commitment


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1))
        self.book = Codebook()
        self.decoder = nn.Sequential(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1))

    def forward(self, x):
        z, commitment = self.book(self.encoder(x))
        return self.decoder(z), commitment


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VQVAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    base = torch.randn(256, 3, 4, 4)
    images = F.interpolate(base, scale_factor=8, mode="bilinear")
    for step in range(25):
        x = images[torch.randint(0, 256, (16,))].to(device)
        out, commitment = model(x)
        loss = F.mse_loss(out, x) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
