"""Train a transformer of GPT-2's shape on the text of Python's documentation, in plain float32.

python gpt.py --depth 12 --width 768 --context 512 --batch-size 16
"""

import torch
from torch import nn
from torch.nn import functional as F

import measure

VOCABULARY = 128


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projection(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Maps tokens of shape (batch, length) to logits of shape (batch, length, vocabulary)."""

    def __init__(self, context, width, depth):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, max(width // 64, 1)) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        return self.head(self.norm(self.blocks(x)))


def parse(words):
    parser = measure.options(__doc__)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--context", type=int, default=512, help="characters in a sequence")
    parser.add_argument("--lr", type=float, default=3e-4)
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
    model = GPT(args.context, args.width, args.depth).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), fused=args.fused)
    clock = measure.Clock(args.device)
    loss = train(model, clock.steps(measure.text_batches(train_data, args.steps, args)), optimizer)
    found = clock.report()
    return {**found, "loss": loss, "validation loss": validate(model, measure.text_batches(test_data, 8, args))}


if __name__ == "__main__":
    print(main())
