"""The training of resnet.py with native mixed precision as PyTorch's own examples write it by hand."""

import torch
from torch import nn

import measure
from resnet import accuracy, build, parse


def train(model, batches, criterion, optimizer, scheduler, scaler, args):
    model.train()
    for images, labels in batches:
        if args.channels_last:
            images = images.to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(images)
            loss = criterion(output, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
    return loss.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, test_labels) = measure.digits(args.device)
    model = build(args)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, fused=args.fused)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    scaler = torch.amp.GradScaler("cuda")
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(model, batches, criterion, optimizer, scheduler, scaler, args)
    found = clock.report()
    with torch.autocast("cuda", dtype=torch.float16):
        return {**found, "loss": loss, "accuracy": accuracy(model, measure.enlarged(test_images, args.size), test_labels)}
