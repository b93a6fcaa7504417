"""Train a DCGAN on enlarged handwritten digits, in plain float32.

python dcgan.py --width 64 --batch-size 128
"""

import torch
from torch import nn

import measure

CODE = 100
SIZE = 64


def generator(width):
    """Maps codes of shape (batch, CODE, 1, 1) to pictures of shape (batch, 3, SIZE, SIZE)."""
    layers = [nn.ConvTranspose2d(CODE, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU(True)]
    for factor in (4, 2, 1):
        layers += [nn.ConvTranspose2d(2 * factor * width, factor * width, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(factor * width), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(width):
    """Maps pictures to one logit each."""
    layers = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True)]
    for factor in (1, 2, 4):
        layers += [nn.Conv2d(factor * width, 2 * factor * width, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * factor * width), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False), nn.Flatten(0))


def parse(words):
    parser = measure.options(__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.set_defaults(size=SIZE)
    return parser.parse_args(words)


def codes(batch_size, device):
    return torch.randn(batch_size, CODE, 1, 1, device=device)


def train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, args):
    net_g.train()
    net_d.train()
    for real, _ in batches:
        ones, zeros = torch.ones(len(real), device=real.device), torch.zeros(len(real), device=real.device)
        optimizer_d.zero_grad()
        loss_real = criterion(net_d(real), ones)
        loss_real.backward()
        fake = net_g(codes(len(real), args.device))
        loss_fake = criterion(net_d(fake.detach()), zeros)
        loss_fake.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(net_d(fake), ones)
        loss_g.backward()
        optimizer_g.step()
    return loss_g.item()


@torch.no_grad()
def validate(net_d, net_g, images, criterion, args):
    """The discriminator's loss on pictures that it has not seen, and on as many new ones of the generator."""
    net_d.eval()
    net_g.eval()
    fake = net_g(codes(len(images), args.device))
    real_logits, fake_logits = net_d(images), net_d(fake)
    loss = criterion(real_logits, torch.ones_like(real_logits)) + criterion(fake_logits, torch.zeros_like(fake_logits))
    return loss.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, _) = measure.digits(args.device)
    net_g, net_d = generator(args.width).to(args.device), discriminator(args.width).to(args.device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, args)
    found = clock.report()
    test = measure.enlarged(test_images, SIZE)
    return {**found, "loss": loss, "validation loss": validate(net_d, net_g, test, criterion, args)}


if __name__ == "__main__":
    print(main())
