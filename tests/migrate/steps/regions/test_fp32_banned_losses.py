"""Losses that autocast refuses: they stay outside the region and read its output in float32."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.engine.migrate import migrate_text
from amp_migrate.settings import Dtype, Settings

Check = Callable[..., Any]


STEP = """
      criterion = nn.BCELoss()
    ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    DELTA
    ~     loss.backward()
    ~     optimizer.step()
          optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(
            """
              for x, y in loader:
            ~     output = model(x)
            -     loss = criterion(output, y)
            +     loss = criterion(output.float(), y)
                  optimizer.zero_grad()
            """,
            id="loss object reads float32",
        ),
        pytest.param(
            """
              for x, y, z in loader:
            ~     output = model(x)
            -     loss = criterion(output[0], y) + nn.functional.mse_loss(output[1], z)
            +     loss = criterion(output[0].float(), y) + nn.functional.mse_loss(output[1].float(), z)
            """,
            id="another loss in the statement of a refused one reads float32 too",
        ),
        pytest.param(
            """
              for x, y in loader:
            -     loss = criterion(model(x), y)
            +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +         model_output = model(x)
            +     loss = criterion(model_output.float(), y)
            """,
            id="forward and loss in one statement",
        ),
        pytest.param(
            """
              for x, y in loader:
            -     hidden = model(x)
            -     loss = criterion(model.head(hidden).squeeze(1), y)
            +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +         hidden = model(x)
            +         head_output = model.head(hidden).squeeze(1)
            +     loss = criterion(head_output.float(), y)
            """,
            id="what is taken out joins the region before it",
        ),
        pytest.param(
            """
              for x, x2, y in loader:
            -     loss = criterion(model(x), y) + criterion(model(x2), y)
            +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +         model_output = model(x)
            +         model_output_2 = model(x2)
            +     loss = criterion(model_output.float(), y) + criterion(model_output_2.float(), y)
            """,
            id="two forwards in one statement have two names",
        ),
    ],
)
def test_a_refused_loss_reads_float32(delta: str, rewrites: Check) -> None:
    rewrites(dedent(STEP).replace("DELTA\n", dedent(delta).removeprefix("\n")))


def test_loss_object_reads_float32_in_bfloat16(rewrites: Check) -> None:
    rewrites(
        """
          criterion = nn.BCELoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     output = model(x)
        -     loss = criterion(output, y)
        +     loss = criterion(output.float(), y)
              optimizer.zero_grad()
              STEP
        """,
        dtype="bf16",
    )


def test_loss_function_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     output = model(x).view(-1)
        -     loss = nn.functional.binary_cross_entropy(output, y)
        +     loss = nn.functional.binary_cross_entropy(output.float(), y)
        ~     STEP
        """
    )


def test_function_of_the_project_around_the_loss_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          import torch.nn.functional as F
          def loss_function(recon, x, mu):
              bce = F.binary_cross_entropy(recon, x, reduction="sum")
              return bce + mu.pow(2).sum()

        ~ optimizer = torch.optim.Adam(model.parameters())
          for x, _ in loader:
        ~     recon, mu = model(x)
        -     loss = loss_function(recon, x, mu)
        +     loss = loss_function(recon.float(), x, mu.float())
        ~     STEP
        """
    )


def test_lambda_around_the_loss_reads_float32(rewrites: Check) -> None:
    rewrites(
        """
          measure = lambda recon, x: nn.functional.binary_cross_entropy(recon, x, reduction="sum")
          total = lambda recon, x: 2 * measure(recon, x) if len(x) else total(recon, x)
        ~ optimizer = torch.optim.Adam(model.parameters())
          for x, _ in loader:
        ~     recon = model(x)
        -     loss = total(recon, x)
        +     loss = total(recon.float(), x)
        ~     STEP
        """
    )


def test_lambda_around_the_loss_and_its_forward_is_left(leaves: Check) -> None:
    leaves(
        """
        measure = lambda x, y: nn.functional.binary_cross_entropy(model(x), y)
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = measure(x, y)
            STEP
        """,
        "autocast refuses it: binary_cross_entropy",
    )


def test_what_is_taken_out_has_the_name_of_what_is_called(rewrites: Check) -> None:
    rewrites(
        """
          criterion = nn.BCELoss()
          nets = [nn.Linear(2, 2)]
        ~ optimizer = torch.optim.SGD(nets[0].parameters(), lr=0.1)
          for x, y in loader:
        -     loss = criterion(nets[0](x), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         nets_output = nets[0](x)
        +     loss = criterion(nets_output.float(), y)
        ~     STEP
        """
    )


def test_forward_that_runs_only_sometimes_stays_where_it_is(leaves: Check) -> None:
    leaves(
        """
        criterion = nn.BCELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            loss = criterion(model(x), y) if len(x) else x.sum()
            STEP
        """,
        "forward and loss share one statement",
    )


def test_refused_loss_that_is_the_call_of_backward(leaves: Check) -> None:
    leaves(
        """
        criterion = nn.BCELoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
        """,
        "forward and loss share one statement",
    )


def test_loss_inside_the_forward(rewrites: Check) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(8, 8)

              def forward(self, x, y):
        -         return nn.functional.binary_cross_entropy(self.fc(x), y)
        +         fc_output = self.fc(x)
        +         with torch.amp.autocast(device_type="cuda", enabled=False):
        +             return nn.functional.binary_cross_entropy(fc_output.float(), y)

          net = Net()
        ~ optimizer = torch.optim.Adam(net.parameters())
          for x, y in loader:
        ~     loss = net(x, y)
        ~     STEP
        """
    )


def test_loss_behind_the_forward_in_a_module(rewrites: Check) -> None:
    rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(8, 8)

              def forward(self, x, y):
        -         p = torch.sigmoid(self.fc(x))
        +         p = torch.sigmoid(self.fc(x).float())
        -         return nn.functional.binary_cross_entropy(p, y)
        +         with torch.amp.autocast(device_type="cuda", enabled=False):
        +             return nn.functional.binary_cross_entropy(p, y)

          net = Net()
        ~ optimizer = torch.optim.Adam(net.parameters())
          for x, y in loader:
        ~     loss = net(x, y)
        ~     STEP
        """
    )


def test_sigmoid_in_the_loss_sees_float32(rewrites: Check) -> None:
    rewrites(
        """
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        -     loss = nn.functional.binary_cross_entropy(torch.sigmoid(model(x)), y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         model_output = model(x)
        +     loss = nn.functional.binary_cross_entropy(torch.sigmoid(model_output.float()), y)
        ~     STEP
        """
    )


def test_sigmoid_before_the_loss_sees_float32(rewrites: Check) -> None:
    rewrites(
        """
          criterion = nn.BCELoss()
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        -     logits = model(x)
        -     output = (logits / 2).sigmoid()
        -     loss = criterion(output, y)
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
        +         logits = model(x)
        +         output = (logits / 2).float().sigmoid()
        +     loss = criterion(output, y)
              STEP
        """,
        dtype="bf16",
    )


def test_sigmoid_that_the_model_returns_sees_float32(rewrites: Check) -> None:
    plan = rewrites(
        """
          class Net(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 1)
                  self.sigmoid = nn.Sigmoid()

              def gate(self, x):
                  return torch.sigmoid(x) * x

              def forward(self, x):
                  output = self.fc(self.gate(x))
        -         output = self.sigmoid(output)
        +         output = self.sigmoid(output.float())
                  return output

          net = Net()
          criterion = nn.BCELoss()
        ~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
          for x, y in loader:
              optimizer.zero_grad()
        ~     output = net(x).squeeze(1)
              loss = criterion(output, y)
        ~     STEP
        """
    )
    assert [finding.code for finding in plan.findings] == ["AMP501"]


def test_sigmoid_of_a_method_and_a_tuple_sees_float32(migrate: Check) -> None:
    plan = migrate(
        """
        class VAE(nn.Module):
            def __init__(self):
                super().__init__()
                self.encode, self.fc = nn.Linear(2, 2), nn.Linear(2, 2)

            def decode(self, z):
                return torch.sigmoid(self.fc(z))

            def forward(self, x):
                mu = self.encode(x)
                return self.decode(mu), mu

        def loss_function(recon, x, mu):
            return nn.functional.binary_cross_entropy(recon, x) + mu.sum()

        model = VAE()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            recon, mu = model(x)
            loss = loss_function(recon, x, mu)
            STEP
        """
    )
    assert "return torch.sigmoid(self.fc(z).float())" in plan.after


def test_sigmoid_of_a_model_that_is_passed_to_the_function_sees_float32(migrate: Check) -> None:
    plan = migrate("""
        class Judge(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(8, 1)
                self.sigmoid = nn.Sigmoid()

            def forward(self, x):
                output = self.fc(x)
                output = self.sigmoid(output)
                return output

        def train(net, optimizer, loader):
            criterion = nn.BCELoss()
            for x, y in loader:
                optimizer.zero_grad()
                outputs = net(x).squeeze()
                loss = criterion(outputs, y)
                STEP

        def main():
            judge = Judge().to(device)
            optimizer = torch.optim.SGD(judge.parameters(), lr=0.1)
            for epoch in range(2):
                train(judge, optimizer, loader)
            train(judge, optimizer, loader)
    """)
    assert "output = self.sigmoid(output.float())" in plan.after
    assert plan.after.count(".float()") == 1


def test_sigmoid_that_cannot_be_seen_is_told(migrate: Check) -> None:
    plan = migrate(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.main = nn.Sequential(nn.Linear(2, 1), getattr(nn, "Sigmoid")())

            def forward(self, x):
                return self.main(x)

        net = Net()
        criterion = nn.BCELoss()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            STEP
        """
    )
    assert "loss = criterion(net_output.float(), y)" in plan.after
    assert {finding.code for finding in plan.findings} == {"AMP501", "AMP502"}


@pytest.mark.parametrize("dtype", Dtype)
def test_each_loss_of_a_sigmoid_that_cannot_be_seen_is_told(dtype: Dtype) -> None:
    text = """\
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(8, 1), getattr(nn, "Sigmoid")())
bce = nn.BCELoss()
optimizer = torch.optim.Adam(critic.parameters())
for real, fake, ones, zeros in loader:
    on_real = critic(real)
    on_fake = critic(fake)
    optimizer.zero_grad()
    loss = bce(on_real, ones)
    loss = loss + nn.functional.binary_cross_entropy(on_fake, zeros)
    loss.backward()
    optimizer.step()
"""
    told = [each for each in migrate_text(text, Settings(dtype=dtype)).findings if each.code == "AMP502"]
    assert [(each.message.split()[0], each.line) for each in told] == [("bce()", 11), ("binary_cross_entropy()", 12)]


def test_loss_of_logits_says_nothing_of_sigmoids(migrate: Check) -> None:
    plan = migrate(
        """
        net = nn.Sequential(nn.Linear(2, 1), nn.Sigmoid())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            STEP
        """
    )
    assert [finding.code for finding in plan.findings] == ["AMP501"]


def test_the_forward_of_a_method_runs_in_the_region_and_its_refused_loss_in_float32(rewrites: Check) -> None:
    rewrites(
        """
          class Critic(nn.Module):
              def __init__(self):
                  super().__init__()
                  self.fc = nn.Linear(2, 2)

              def forward(self, x):
                  return self.fc(x)

              def loss(self, x, y):
                  out = self.forward(x)
        -         return nn.functional.binary_cross_entropy(torch.sigmoid(out), y)
        +         with torch.amp.autocast(device_type="cuda", enabled=False):
        +             return nn.functional.binary_cross_entropy(torch.sigmoid(out.float()), y)

          net, critic = nn.Linear(2, 2), Critic()
        ~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
          for x, y in loader:
        ~     out = net(x)
        ~     fit = nn.functional.mse_loss(out, y)
        ~     loss = fit + critic.loss(out, y)
        ~     STEP
        """
    )


def test_labels_of_a_criterion_that_a_branch_makes_another_one_stay_integers(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
              optimizer.zero_grad()
        -     out = model(x)
        -     criterion = nn.CrossEntropyLoss()
        -     if is_binary:
        -         criterion = nn.BCELoss()
        -         out = torch.sigmoid(out)
        -         y = y.type_as(out)
        -     loss = criterion(out, y)
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         out = model(x)
        +         criterion = nn.CrossEntropyLoss()
        +         if is_binary:
        +             criterion = nn.BCELoss()
        +             out = torch.sigmoid(out.float())
        +             y = y.type_as(out).float()
        +     loss = criterion(out.float(), y)
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """
    )


TARGETS = """\
import torch
from torch import nn


def target(size):
    {target}


model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.BCELoss()
for x in loader:
    optimizer.zero_grad()
    output = model(x.cuda())
    loss = criterion(output, target(len(x)).cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("target", "is_whole"),
    [
        ("return torch.ones(size, 1)", True),
        ("smooth = nn.Threshold(0.5, 1.0); return smooth(torch.ones(size, 1))", True),
        ("return nn.Dropout(0.1)(torch.ones(size, 1))", True),
        ("layer = nn.Linear(1, 1); return layer(torch.ones(size, 1))", False),
        ("return model(torch.ones(size, 8).cuda())", False),
    ],
)
def test_what_runs_no_weights_stays_with_its_loss(target: str, is_whole: bool) -> None:
    after = migrate_text(TARGETS.format(target=target), Settings()).after
    assert ("criterion(output, target(len(x)).cuda())" in after) is is_whole
    assert ("target_output = target(len(x)).cuda()" in after) is not is_whole
