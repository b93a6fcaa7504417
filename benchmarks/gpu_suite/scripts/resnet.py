"""Train a ResNet on enlarged handwritten digits, in plain float32.

python resnet.py --depth 18 --size 32 --batch-size 128
"""

import torch
import torchvision
from torch import nn

import measure


def parse(words):
    parser = measure.options(__doc__)
    parser.add_argument("--size", type=int, default=32, help="pixels of a side")
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--channels-last", action="store_true")
    return parser.parse_args(words)


def build(args):
    """For small pictures the stem is a 3x3 convolution without pooling."""
    model = getattr(torchvision.models, f"resnet{args.depth}")(num_classes=10)
    if args.size < 64:
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    model = model.to(args.device)
    return model.to(memory_format=torch.channels_last) if args.channels_last else model


def train(model, batches, criterion, optimizer, scheduler, args):
    model.train()
    for images, labels in batches:
        if args.channels_last:
            images = images.to(memory_format=torch.channels_last)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, images, labels):
    model.eval()
    return (model(images).argmax(dim=1) == labels).float().mean().item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    (images, labels), (test_images, test_labels) = measure.digits(args.device)
    model = build(args)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, fused=args.fused)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    clock = measure.Clock(args.device)
    batches = clock.steps(measure.picture_batches(images, labels, args))
    loss = train(model, batches, criterion, optimizer, scheduler, args)
    found = clock.report()
    test = measure.enlarged(test_images, args.size)
    return {**found, "loss": loss, "accuracy": accuracy(model, test, test_labels)}


if __name__ == "__main__":
    print(main())
