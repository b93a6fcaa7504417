"""The training of resnet.py as it is written for Apex."""

import torch
from amp_shim import amp
from torch import nn

import measure
from resnet import accuracy, build, parse


def train(model, batches, criterion, optimizer, scheduler, args):
    model.train()
    for images, labels in batches:
        if args.channels_last:
            images = images.to(memory_format=torch.channels_last)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, test_labels) = measure.digits(args.device)
    model = build(args)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, fused=args.fused)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, verbosity=0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(model, batches, criterion, optimizer, scheduler, args)
    found = clock.report()
    test = measure.enlarged(test_images, args.size)
    return {**found, "loss": loss, "accuracy": accuracy(model, test, test_labels)}
