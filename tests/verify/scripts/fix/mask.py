# mypy: ignore-errors
"""A small language model whose mask is written as -1e9."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        b, t, w = x.shape
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(w // self.heads)
        scores = scores.masked_fill(mask == 0, -1e9)
        return self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        x = x + self.attention(self.a(x), mask)
        return x + self.mlp(self.b(x))


class Model(nn.Module):
    def __init__(self, vocabulary=32, width=64, length=24):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)))

    def forward(self, ids):
        x = self.words(ids) + self.places
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(x)


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(25):
    start = torch.randint(0, 32, (16, 1))
    ids = ((start + 3 * torch.arange(25)) % 32).to(device)
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 32), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())
