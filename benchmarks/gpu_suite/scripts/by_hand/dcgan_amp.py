"""The training of dcgan.py with native mixed precision as PyTorch's own examples write it by hand."""

import torch
from torch import nn

import measure
from dcgan import SIZE, codes, discriminator, generator, parse, validate


def train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, scaler, args):
    net_g.train()
    net_d.train()
    for real, _ in batches:
        ones, zeros = torch.ones(len(real), device=real.device), torch.zeros(len(real), device=real.device)
        optimizer_d.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_real = criterion(net_d(real), ones)
        scaler.scale(loss_real).backward()
        with torch.autocast("cuda", dtype=torch.float16):
            fake = net_g(codes(len(real), args.device))
            loss_fake = criterion(net_d(fake.detach()), zeros)
        scaler.scale(loss_fake).backward()
        scaler.step(optimizer_d)

        optimizer_g.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss_g = criterion(net_d(fake), ones)
        scaler.scale(loss_g).backward()
        scaler.step(optimizer_g)
        scaler.update()
    return loss_g.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, _) = measure.digits(args.device)
    net_g, net_d = generator(args.width).to(args.device), discriminator(args.width).to(args.device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    scaler = torch.amp.GradScaler("cuda")
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, scaler, args)
    found = clock.report()
    with torch.autocast("cuda", dtype=torch.float16):
        test = measure.enlarged(test_images, SIZE)
        return {**found, "loss": loss, "validation loss": validate(net_d, net_g, test, criterion, args)}
