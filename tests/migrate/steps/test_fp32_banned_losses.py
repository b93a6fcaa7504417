"""Losses that autocast refuses: they stay outside the region and read its output in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]


def test_loss_object_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          criterion = nn.BCELoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        -     output = model(x)
        -     loss = criterion(output, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         output = model(x)
        +     loss = criterion(output.float(), y)
              optimizer.zero_grad()
        -     loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_loss_object_reads_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          criterion = nn.BCELoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        -     output = model(x)
        -     loss = criterion(output, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         output = model(x)
        +     loss = criterion(output.float(), y)
              optimizer.zero_grad()
              loss.backward()
              optimizer.step()
        """,
        dtype="bf16",
    )


def test_loss_function_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x, y in loader:
        -     output = model(x).view(-1)
        -     loss = nn.functional.binary_cross_entropy(output, y)
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         output = model(x).view(-1)
        +     loss = nn.functional.binary_cross_entropy(output.float(), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_function_of_the_project_around_the_loss_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          import torch.nn.functional as F
          def loss_function(recon, x, mu):
              bce = F.binary_cross_entropy(recon, x, reduction="sum")
              return bce + mu.pow(2).sum()

          optimizer = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")
          for x, _ in loader:
        -     recon, mu = model(x)
        -     loss = loss_function(recon, x, mu)
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         recon, mu = model(x)
        +     loss = loss_function(recon.float(), x, mu.float())
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_forward_and_loss_in_one_statement(leaves: Check) -> None:
    leaves(
        """
        criterion = nn.BCELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
        """,
        "forward and loss share one statement",
    )


def test_loss_inside_the_forward(leaves: Check) -> None:
    leaves(
        """
        class Net(nn.Module):
            def forward(self, x, y):
                return nn.functional.binary_cross_entropy(self.fc(x), y)

        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for x, y in loader:
            loss = net(x, y)
            loss.backward()
            optimizer.step()
        """,
        "computes a BCELoss inside its forward",
    )
