"""The next letter of a text: a small transformer, AdamW, a schedule, dropout and clipping."""

import torch
from torch import nn

torch.manual_seed(4)
text = "in the beginning was the word, and the word was with the gradient, and it was scaled. " * 40
letters = sorted(set(text))
codes = torch.tensor([letters.index(letter) for letter in text])
context, width = 32, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(letters), width)
        self.place = nn.Parameter(torch.zeros(context, width))
        self.layer = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, len(letters))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(context, device=x.device)
        return self.head(self.layer(self.embed(x) + self.place, src_mask=mask, is_causal=True))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 24)
for step in range(24):
    starts = torch.randint(len(codes) - context - 1, (16,))
    x = torch.stack([codes[i : i + context] for i in starts]).cuda()
    y = torch.stack([codes[i + 1 : i + context + 1] for i in starts]).cuda()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    print(step, loss.item())
