"""The training of lstm.py with native mixed precision as PyTorch's own examples write it by hand."""

import torch
from torch.nn import functional as F

import measure
from lstm import Model, parse, validate


def train(model, batches, optimizer, scaler):
    model.train()
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return loss.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    train_data, test_data = measure.documentation(args.device)
    model = Model(args.width, args.depth).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=args.fused)
    scaler = torch.amp.GradScaler("cuda")
    clock = measure.Clock(args.device)
    loss = train(model, clock.steps(measure.text_batches(train_data, args.steps, args)), optimizer, scaler)
    found = clock.report()
    with torch.autocast("cuda", dtype=torch.float16):
        validation = validate(model, measure.text_batches(test_data, 8, args))
    return {**found, "loss": loss, "validation loss": validation}
