"""What a rewrite leaves of a file's looks: comments, blank lines, line breaks, semicolons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

HEAD = "import torch\nfrom torch import nn\n\n"
Check = Callable[..., Any]


def test_comments_and_blank_lines_stay_with_their_statements(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # plain SGD
          # the loop
          for x, y in loader:
              # forward
        ~     out = model(x)  # logits

        -     # loss
        -     loss = nn.functional.mse_loss(out, y)
        +         # loss
        +         loss = nn.functional.mse_loss(out, y)

              # backward
        -     loss.backward()  # gradients
        +     scaler.scale(loss).backward()  # gradients
              # step
        -     optimizer.step()  # weights
        +     scaler.step(optimizer)  # weights
        +     scaler.update()
              optimizer.zero_grad()

              # log
              print(loss.item())
        """
    )


def test_calls_over_several_lines_stay_so(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          optimizer = torch.optim.SGD(
              model.parameters(),  # all of them
              lr=0.1,
          )
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        ~     loss = nn.functional.mse_loss(
        ~         model(x),
        ~         x,  # itself
        ~     )
        -     loss.backward(
        +     scaler.scale(loss).backward(
                  retain_graph=True,  # again
              )
        ~     optimizer.step()
              optimizer.zero_grad()
        """
    )


def test_strings_over_several_lines_keep_their_text(rewrites: Check) -> None:
    rewrites(
        '''
          model = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x in loader:
        -     loss = model(x, """
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x, """
          not indented
          """).mean()
        -     loss.backward()
        -     optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
              optimizer.zero_grad()
        '''
    )


def test_statements_on_one_line_are_parted_where_they_move(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
        -     loss = nn.functional.mse_loss(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()  # go
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = nn.functional.mse_loss(model(x), y)
        +     optimizer.zero_grad()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)  # go
        +     scaler.update()
        """
    )


def test_statements_on_one_line_are_parted_at_every_edit(rewrites: Check) -> None:
    rewrites(
        """
        - model = nn.Linear(2, 2); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + model = nn.Linear(2, 2)
        + optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")
          for x in loader:
        -     optimizer.zero_grad(); loss = model(x).mean()
        -     loss.backward(); optimizer.step()
        +     optimizer.zero_grad()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_loss_on_the_line_of_its_forward(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        -     output = model(x); loss = nn.functional.mse_loss(output, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         output = model(x)
        +         loss = nn.functional.mse_loss(output, y)
              total += loss.item()
        -     loss.backward(); optimizer.step()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


def test_one_line_loop_becomes_a_block(rewrites: Check) -> None:
    rewrites(
        """
          MODEL
        - for x in loader: optimizer.zero_grad(); model(x).mean().backward(); optimizer.step()
        + scaler = torch.amp.GradScaler("cuda")
        + for x in loader:
        +     optimizer.zero_grad()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = model(x).mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


LOOP = """\
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MOVED = """\
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in loader:
    with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n", "\r\n"), ("    ", "\t"), ("    ", "  ")],
    ids=["carriage returns", "tabs", "two spaces"],
)
def test_line_ends_and_indents_are_those_of_the_file(migrate: Check, old: str, new: str) -> None:
    head = HEAD.replace(old, new)
    assert migrate(LOOP.replace(old, new), head=head).after == head + MOVED.replace(old, new)


def test_file_without_a_final_newline_gets_none(migrate: Check) -> None:
    assert migrate(LOOP.rstrip("\n")).after == HEAD + MOVED.rstrip("\n")


def test_new_blocks_are_as_deep_as_those_around_them_in_a_file_of_two_indents(rewrites: Check) -> None:
    rewrites(
        """
          class Data:
            def __len__(self):
              return 4

          def main(model, loader):
        ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              state = torch.load("last.pt")
        -     if "optimizer" in state: optimizer.load_state_dict(state["optimizer"])
        +     if "optimizer" in state:
        +         optimizer.load_state_dict(state["optimizer"])
        +         if state.get("scaler"):
        +             scaler.load_state_dict(state["scaler"])
              for x, y in loader:
        ~         loss = nn.functional.cross_entropy(model(x), y)
        ~         loss.backward()
        -         optimizer.step()
        +         scaler.step(optimizer)
        +         scaler.update()
                  optimizer.zero_grad()
        """
    )
