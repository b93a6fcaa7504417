"""Train an LSTM language model on the text of Python's documentation, in plain float32.

python lstm.py --depth 2 --width 1024 --context 256 --batch-size 64
"""

import torch
from torch import nn
from torch.nn import functional as F

import measure

VOCABULARY = 128


class Model(nn.Module):
    """Maps tokens of shape (batch, length) to logits of shape (batch, length, vocabulary)."""

    def __init__(self, width, depth):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        output, _ = self.lstm(self.tokens(tokens))
        return self.head(output)


def parse(words):
    parser = measure.options(__doc__)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--context", type=int, default=256, help="characters in a sequence")
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args(words)


def train(model, batches, optimizer):
    model.train()
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


@torch.no_grad()
def validate(model, batches):
    model.eval()
    losses = []
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main(words=None):
    args = parse(words)
    measure.start(args)
    train_data, test_data = measure.documentation(args.device)
    model = Model(args.width, args.depth).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, fused=args.fused)
    clock = measure.Clock(args.device)
    loss = train(model, clock.steps(measure.text_batches(train_data, args.steps, args)), optimizer)
    found = clock.report()
    return {**found, "loss": loss, "validation loss": validate(model, measure.text_batches(test_data, 8, args))}


if __name__ == "__main__":
    print(main())
