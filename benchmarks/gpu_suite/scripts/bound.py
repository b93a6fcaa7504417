"""Train a network that is bound by what feeds it, by what launches its kernels, or by what it computes (float32).

python bound.py --bound input
"""

import argparse
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# Width, layers and batch size: many small kernels, or few large ones.
SHAPES = {"input": (512, 4, 256), "launch": (32, 60, 32), "compute": (8192, 4, 4096)}


class Packed(Dataset):
    """Vectors that are kept compressed, as pictures are: unpacking one takes a while."""

    def __init__(self, width, rounds):
        self.rounds = rounds
        self.packed = [zlib.compress(torch.randn(width).numpy().tobytes()) for _ in range(64)]

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        for _ in range(self.rounds):
            unpacked = zlib.decompress(self.packed[index % len(self.packed)])
        return torch.frombuffer(bytearray(unpacked), dtype=torch.float32)


class Held(Dataset):
    """Batches that are on the device already."""

    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return self.batch


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bound", choices=list(SHAPES), required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--divide", type=int, default=1, help="widths and batch size by this")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args(words)
    width, depth, batch_size = SHAPES[args.bound]
    width, batch_size = width // args.divide, batch_size // args.divide
    torch.manual_seed(0)
    layers = [each for _ in range(depth) for each in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 16)).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    if args.bound == "input":
        loader = DataLoader(Packed(width, rounds=20), batch_size=batch_size)
    else:
        loader = DataLoader(Held(torch.randn(batch_size, width, device=args.device)), batch_size=None)
    for step, x in enumerate(loader):
        if step == args.steps:
            break
        x = x.to(args.device)
        loss = nn.functional.mse_loss(model(x), x[:, :16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
