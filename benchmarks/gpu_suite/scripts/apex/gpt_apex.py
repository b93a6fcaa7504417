"""The training of gpt.py as it is written for Apex."""

import torch
from amp_shim import amp
from torch.nn import functional as F

import measure
from gpt import GPT, parse, validate


def train(model, batches, optimizer):
    model.train()
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
    return loss.item()


def main(words=None):
    args = parse(words)
    measure.start(args)
    train_data, test_data = measure.documentation(args.device)
    model = GPT(args.context, args.width, args.depth).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), fused=args.fused)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, verbosity=0)
    clock = measure.Clock(args.device)
    loss = train(model, clock.steps(measure.text_batches(train_data, args.steps, args)), optimizer)
    found = clock.report()
    return {**found, "loss": loss, "validation loss": validate(model, measure.text_batches(test_data, 8, args))}
