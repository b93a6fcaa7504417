"""The training of dcgan.py as it is written for Apex."""

import torch
from amp_shim import amp
from torch import nn

import measure
from dcgan import SIZE, codes, discriminator, generator, parse, validate


def train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, args):
    net_g.train()
    net_d.train()
    for real, _ in batches:
        ones, zeros = torch.ones(len(real), device=real.device), torch.zeros(len(real), device=real.device)
        optimizer_d.zero_grad()
        loss_real = criterion(net_d(real), ones)
        with amp.scale_loss(loss_real, optimizer_d, loss_id=0) as scaled_loss:
            scaled_loss.backward()
        fake = net_g(codes(len(real), args.device))
        loss_fake = criterion(net_d(fake.detach()), zeros)
        with amp.scale_loss(loss_fake, optimizer_d, loss_id=1) as scaled_loss:
            scaled_loss.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(net_d(fake), ones)
        with amp.scale_loss(loss_g, optimizer_g, loss_id=2) as scaled_loss:
            scaled_loss.backward()
        optimizer_g.step()
    return loss_g.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, _) = measure.digits(args.device)
    net_g, net_d = generator(args.width).to(args.device), discriminator(args.width).to(args.device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=args.lr, betas=(0.5, 0.999), fused=args.fused)
    (net_g, net_d), (optimizer_g, optimizer_d) = amp.initialize(
        [net_g, net_d], [optimizer_g, optimizer_d], opt_level=args.opt_level, num_losses=3, verbosity=0
    )
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(net_g, net_d, batches, criterion, optimizer_g, optimizer_d, args)
    found = clock.report()
    test = measure.enlarged(test_images, SIZE)
    return {**found, "loss": loss, "validation loss": validate(net_d, net_g, test, criterion, args)}
