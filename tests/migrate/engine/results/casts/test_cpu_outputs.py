"""A loss that a region computes on the CPU, where autocast does nothing, reads float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]


def test_loss_on_the_cpu_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          loss_device = torch.device("cpu")
          model = nn.Linear(2, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        -     out = model(x)
        -     moved = out.view(-1).to(loss_device)
        -     loss = nn.functional.mse_loss(moved, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = model(x)
        +         moved = out.view(-1).to(loss_device)
        +         loss = nn.functional.mse_loss(moved.float(), y)
        ~     STEP
        """
    )


@pytest.mark.parametrize(
    ("moved", "read"),
    [
        ("out.cpu()", "moved.float()"),
        ('out.to("cpu")', "moved.float()"),
        ("model(x).cpu()", "moved.float()"),
        ("out.to(device)", "moved"),  # which may be a GPU
        ("out.to(y)", "moved"),
        ("out.cuda()", "moved"),
        ("out.argmax(1).cpu()", "moved"),
    ],
)
def test_only_what_goes_to_the_cpu_is_cast(migrate: Check, moved: str, read: str) -> None:
    after = migrate(_training(moved, "moved"), "bf16").after
    assert f"moved = {moved}\n        loss = nn.functional.mse_loss({read}, y)\n" in after


def test_what_no_loss_reads_and_regions_of_the_cpu_are_left_alone(migrate: Check) -> None:
    assert "moved = out.cpu()\n" in migrate(_training("out.cpu()", "out"), "bf16").after
    assert "moved = out.cpu()\n" in migrate(_training("out.cpu()", "moved"), "bf16", device_type="cpu").after


def test_what_is_put_into_an_array_is_left_to_numpy(migrate: Check) -> None:
    text = (
        _training("out.cpu()", "out")
        + """
with torch.no_grad():
    found[:2] = model(x).cpu()
    found[2:] = model(y).cpu()
"""
    )
    assert "found[:2] = model(x).cpu()\n" in migrate(text).after


def test_what_another_function_calls_by_the_same_name_is_another_thing(migrate: Check) -> None:
    text = """
def evaluate(model, loader):
    with torch.no_grad():
        for x in loader:
            out = model(x).cpu()

def train(model, criterion, optimizer, loader):
    for x, y in loader:
        out = model(x)
        loss = criterion(out, y)
        STEP
"""
    assert "out = model(x).cpu()\n" in migrate(text, "bf16").after


def _training(moved: str, read: str) -> str:
    return f"""
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
MODEL
for x, y in loader:
    out = model(x)
    moved = {moved}
    loss = nn.functional.mse_loss({read}, y)
    STEP
"""


def test_a_buffer_goes_where_its_module_goes(migrate: Check) -> None:
    plan = migrate(
        """\
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qk = nn.Linear(8, 16)
                self.register_buffer("mask", torch.tril(torch.ones(4, 4)))

            def forward(self, x):
                q, k = self.qk(x).split(8, dim=2)
                scores = (q @ k.transpose(-2, -1)).masked_fill(self.mask == 0, float("-inf"))
                return nn.functional.softmax(scores, dim=-1) @ q

        model = Attention().to(args.device)
        optimizer = torch.optim.Adam(model.parameters())
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x.to(args.device)), y.to(args.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    assert "scaler.step(optimizer)" in plan.after
    assert "softmax(scores, dim=-1) @ q\n" in plan.after


CHAIN = """\
class Net(nn.Module):
    def __init__(self, widths):
        super().__init__()
        layers, size = [], 16
        for width in widths:
            layers.extend([nn.Linear(size, width), {norm}, nn.ReLU()])
            size = width
        layers.append({last})
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return self.body(x)


net = Net([8, 8]).cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    for x, names in tests:
        logits = net(x.cuda())
        found = torch.softmax(logits, dim=1).cpu()
        for name, each in zip(names, found):
            sums[name] += each
"""


def test_a_chain_that_grows_in_a_loop_is_low_behind_any_of_its_products(migrate: Check) -> None:
    plan = migrate(CHAIN.format(norm="nn.BatchNorm1d(width)", last="nn.Linear(size, 5)"))
    assert "        found = torch.softmax(logits.float(), dim=1).cpu()\n" in plan.after
    assert "sums[name] += each\n" in plan.after  # float32 already
    plan = migrate(CHAIN.format(norm="nn.LayerNorm(width)", last="nn.Softmax(dim=1)"))
    assert ".float()" not in plan.after


@pytest.mark.parametrize("package", ["transformers", "somewhere"])
def test_evaluation_loss_on_the_cpu_of_a_model_that_nobody_has_read_reads_float32(package: str, migrate: Check) -> None:
    text = f"""
from {package} import AutoModel

model = AutoModel.from_pretrained("x")
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def validate(loader):
    total = 0
    for x, y in loader:
        with torch.no_grad():
            outputs = model(x.cuda())
        logits = outputs[0].detach().cpu()
        total += nn.CrossEntropyLoss()(logits, y)
    return total


for x, y in loader:
    loss = model(x.cuda(), labels=y.cuda())[0]
    STEP
print(validate(loader))
"""
    assert "total += nn.CrossEntropyLoss()(logits.float(), y)\n" in migrate(text).after
