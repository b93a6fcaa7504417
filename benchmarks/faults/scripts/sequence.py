"""Which of two kinds a sequence is: an LSTM with dropout, Adam, and an evaluation after every epoch of four steps."""

import torch
from torch import nn

torch.manual_seed(5)
device = torch.device("cuda")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 24, batch_first=True)
        self.norm = nn.BatchNorm1d(24)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(24, 2)

    def forward(self, x):
        return self.out(self.drop(self.norm(self.lstm(x)[0][:, -1])))


def evaluate(model, inputs, labels):
    model.eval()
    with torch.no_grad():
        right = (model(inputs.to(device)).argmax(1).cpu() == labels).float().mean()
    model.train()
    return right.item()


model = Model().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
inputs = torch.randn(192, 12, 4).cumsum(1) / 3
labels = (inputs[:, :, 0].mean(1) > inputs[:, :, 1].mean(1)).long()
for epoch in range(6):
    for at in range(0, 128, 32):
        optimizer.zero_grad()
        loss = criterion(model(inputs[at : at + 32].to(device)), labels[at : at + 32].to(device))
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), evaluate(model, inputs[128:], labels[128:]))
