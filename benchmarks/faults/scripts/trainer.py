"""A trainer class that holds model and optimizer, clips, and writes a checkpoint after every epoch."""

import os
import tempfile

import torch
from torch import nn


class Trainer:
    def __init__(self, path):
        self.model = nn.Sequential(nn.Linear(20, 48), nn.Tanh(), nn.Linear(48, 5)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.path = path

    def train_epoch(self, batches):
        total = 0.0
        for inputs, labels in batches:
            x, y = inputs.cuda(), labels.cuda()
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optimizer.step()
            total += loss.item()
        return total / len(batches)

    def save(self, epoch):
        torch.save(
            {"epoch": epoch, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, self.path
        )


def main():
    torch.manual_seed(7)
    inputs = torch.randn(320, 20)
    labels = (inputs @ torch.randn(20, 5)).argmax(1)
    batches = list(zip(inputs.split(40), labels.split(40), strict=True))
    trainer = Trainer(os.path.join(tempfile.mkdtemp(), "best.pt"))
    for epoch in range(3):
        print(epoch, trainer.train_epoch(batches))
        trainer.save(epoch)


if __name__ == "__main__":
    main()
