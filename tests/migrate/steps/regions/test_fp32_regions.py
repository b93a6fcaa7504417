"""Where the autocast region of a training step begins and ends."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

Check = Callable[..., Any]


STEP = """
    ~ MODEL
    DELTA
    ~     optimizer.step()
          optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(
            """
              for x, y in loader:
                  x, y = x.cuda(), y.cuda()
            ~     out = model(x)
            ~     loss = nn.functional.cross_entropy(out, y)
                  correct += (out.argmax(1) == y).sum().item()
            ~     loss.backward()
            """,
            id="region holds forward and loss",
        ),
        pytest.param(
            """
              for x, y in loader:
            ~     loss = nn.functional.mse_loss(model(x), y)
                  if torch.isnan(loss):
                      continue
            ~     loss.backward()
            """,
            id="region ends before a test of the loss",
        ),
        pytest.param(
            """
              while (batch := next(it)) is not None:
            ~     loss = model(batch).sum()
            ~     loss.backward()
            """,
            id="region in a while loop",
        ),
        pytest.param(
            """
              for x in loader:
                  with torch.no_grad():
            ~         target = model(x)
            ~     loss = nn.functional.mse_loss(model(x), target)
            ~     loss.backward()
            """,
            id="forward without gradients has a region of its own",
        ),
        pytest.param(
            """
              for x, y in loader:
                  if distill:
                      with torch.no_grad():
            ~             y = model(x)
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            """,
            id="forward without gradients in a branch has a region of its own",
        ),
        pytest.param(
            """
              for x in loader:
            ~     out = model(x)
            ~     loss = out.mean()
            ~     loss.backward(retain_graph=True)
            ~     penalty = torch.norm(out)
            ~     penalty.backward()
            """,
            id="later term computed from an earlier output gets a region too",
        ),
        pytest.param(
            """
              for x, weights in loader:
            ~     log_p = model(x)
                  with torch.no_grad():
            ~         target = model(x).softmax(1)
            -     loss = -torch.sum(target * log_p, 1)
            -     (weights * loss).mean().backward()
            +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
            +         loss = -torch.sum(target * log_p, 1)
            +         step_loss = (weights * loss).mean()
            +     scaler.scale(step_loss).backward()
            """,
            id="region does not grow over the next to a loss without a name",
        ),
        pytest.param(
            """
              for x in loader:
            ~     next_model, out = model(x)
            ~     loss = out.mean()
            ~     loss.backward()
                  weights = list(next_model.arch_parameters())
            """,
            id="asking a model for some of its parameters is no forward",
        ),
        pytest.param(
            """
              for x in loader:
                  learner = learning.clone_module(model)
                  other = model.clone()
                  x = augment(x)
            ~     loss = learner(x).mean() + compare(model, other, x)
            ~     loss.backward()
            """,
            id="copying a model is no forward",
        ),
        pytest.param(
            """
              for x, y in loader:
                  if distills:
                      with torch.no_grad():
            ~             y = model(x)
            ~     loss = nn.functional.mse_loss(model(x), y)
            ~     loss.backward()
            """,
            id="a forward without gradients below a condition shares no region",
        ),
    ],
)
def test_a_region_holds_forward_and_loss_and_what_they_need(delta: str, rewrites: Check) -> None:
    rewrites(dedent(STEP).replace("DELTA\n", dedent(delta).removeprefix("\n")))


def test_what_makes_a_criterion_is_not_yet_a_loss(rewrites: Check) -> None:
    rewrites(
        """
          def train(loader, config):
              criterion, options = nn.MSELoss(), make_loss_options(config)
              objective = get_loss(config)
              weights = read_loss_weights(config)
        ~     MODEL
        ~     out = model(x)
        ~     loss = objective(out, y, **weights)
        ~     STEP
        """
    )


def test_region_stands_inside_set_grad_enabled(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.MSELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for phase in ["train", "val"]:
              for x, y in loaders[phase]:
                  optimizer.zero_grad()
                  with torch.set_grad_enabled(phase == "train"):
        ~             outputs = model(x)
        ~             loss = criterion(outputs, y)
                      if phase == "train":
        ~                 STEP
                  running += loss.item()
        """
    )


def test_backward_behind_set_grad_enabled_stays_behind_it(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.MSELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
              with torch.set_grad_enabled(True):
        ~         outputs = model(x)
        ~         loss = criterion(outputs, y)
        ~     STEP
        """
    )


def test_region_holds_a_loop_over_time(rewrites: Check) -> None:
    rewrites(
        """
          rnn = RNN()
          criterion = nn.NLLLoss()
        ~ optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
          for line, targets in data:
              hidden = rnn.init_hidden()
              loss = torch.zeros(1).cuda()
        ~     for i in range(line.size(0)):
        ~         output, hidden = rnn(line[i], hidden)
        ~         loss += criterion(output, targets[i])
              optimizer.zero_grad()
        ~     STEP
        """
    )


def test_zero_grad_between_forward_and_loss_stays_in_place(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2)
          criterion = nn.MSELoss()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     outputs = model(x)
        ~     optimizer.zero_grad()
        ~     loss = criterion(outputs, y)
        ~     STEP
        """
    )


def test_region_stands_inside_no_sync(rewrites: Check) -> None:
    rewrites(
        """
          model = torch.nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for i, (x, y) in enumerate(loader):
              if i % 2:
                  with model.no_sync():
        +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +                 loss = nn.functional.mse_loss(model(x), y)
        +             scaler.scale(loss).backward()
        +     else:
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                      loss = nn.functional.mse_loss(model(x), y)
        -             loss.backward()
        -     else:
        -         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
                  optimizer.zero_grad()
        """
    )


def test_region_of_an_async_function(rewrites: Check) -> None:
    rewrites(
        """
          async def train(model, loader):
        ~     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
              async for x, y in loader:
        ~         loss = nn.functional.mse_loss(model(x), y)
        ~         STEP
        """
    )


def test_forward_in_another_function(leaves: Check) -> None:
    leaves(
        """
        def update(loss, optimizer):
            optimizer.zero_grad()
            STEP

        MODEL
        for x, y in loader:
            update(nn.functional.mse_loss(model(x), y), optimizer)
        """,
        "is not in this function",
    )


def test_forward_in_another_function_in_bfloat16(leaves: Check) -> None:
    leaves(
        """
        def update(loss, optimizer):
            optimizer.zero_grad()
            STEP

        MODEL
        for x, y in loader:
            update(nn.functional.mse_loss(model(x), y), optimizer)
        """,
        "is not in this function",
        dtype="bf16",
    )


def test_backward_of_several_losses_at_once_that_nobody_computes(leaves: Check) -> None:
    leaves(
        """
        model = nn.Linear(2, 2)
        torch.autograd.backward([a, b])
        """,
        "the forward pass behind `[a, b]` is not in this function",
    )


def test_a_region_ends_at_the_border_of_a_cell(rewrites: Check) -> None:
    rewrites(
        """
          model = nn.Linear(2, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          # amp-migrate: cell 1
        ~ outputs = model(inputs)
          # amp-migrate: cell 2
        ~ loss = nn.functional.cross_entropy(outputs, targets)
        ~ STEP
          # amp-migrate: cell 3
          with torch.no_grad():
        ~     print(model(inputs))
        """
    )


def test_a_call_that_is_given_the_model_is_its_forward(rewrites: Check) -> None:
    rewrites(
        """
          from monai.inferers import DiffusionInferer

          encoder = nn.Linear(2, 2).cuda()
          size = encoder(sample).shape[1]
          model = nn.Linear(size, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          inferer = DiffusionInferer()
          for x, y in loader:
              optimizer.zero_grad()
        ~     noise = inferer(x, model, size)
        ~     loss = nn.functional.mse_loss(noise, y)
        ~     STEP
        """
    )


@pytest.mark.parametrize("asked", ["clone()", "adapt(x)"])
def test_an_object_that_is_given_the_model_and_asked_for_more_is_no_loss(leaves: Check, asked: str) -> None:
    leaves(
        f"""
        import meta

        model = nn.Linear(2, 2).cuda()
        whole = meta.Learner(model, lr=0.1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            learner = whole.{asked}
            loss = meta.adapted(learner, x, y)
            STEP
        """,
        "the forward pass behind `loss` cannot be seen",
    )


def test_a_loss_that_a_class_gives_which_gets_the_model(rewrites: Check) -> None:
    rewrites(
        """
          import physics

          model = nn.Linear(2, 2).cuda()
        ~ optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          for x, y in loader:
        ~     loss = physics.Residual(model, x)
        ~     loss = 0.5 * loss.mean() + y.sum()
        ~     STEP
        """
    )


def test_forward_on_an_output_of_the_step_that_no_loss_depends_on(rewrites: Check) -> None:
    # Outside every region, the float32 weights of D would meet a half input.
    rewrites(
        """
          G, D = nn.Linear(2, 2), nn.Linear(2, 1)
        ~ optimizer = torch.optim.SGD(G.parameters(), lr=0.1)
          for z in loader:
        ~     fake = G(z)
        ~     loss = D(fake).mean()
        ~     STEP
        ~     score = D(fake.detach()).mean()
              print(score.item())
        """
    )


def test_plot_of_an_output_is_no_forward_of_it(rewrites: Check) -> None:
    rewrites(
        """
          def plot(values):
              model = Projection()
              return model.fit_transform(values)

          net = nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
          for x, y in loader:
        ~     out = net(x)
        ~     loss = nn.functional.mse_loss(out, y)
        ~     STEP
        -     show(plot(out.detach().cpu().numpy()))
        +     show(plot(out.float().detach().cpu().numpy()))
        """
    )


def test_forward_that_feeds_another_after_the_step_shares_its_region(rewrites: Check) -> None:
    rewrites(
        """
          generator, critic = nn.Linear(2, 2), nn.Linear(2, 2)
        ~ optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
          for z in loader:
        ~     fake = generator(z)
        ~     loss = critic(fake).mean()
        ~     STEP
        ~     fake = generator(z)
        ~     score = critic(fake).mean()
              print(score.item())
        """
    )


def test_models_that_are_numbered_are_models(rewrites: Check) -> None:
    rewrites(
        """
          def step(model1, model2, optimizer, x):
        ~     loss = (model1(x) - model2(x)).pow(2).mean()
              STEP
        """,
        dtype="bf16",
    )


def test_element_of_a_list_of_models_is_a_model(rewrites: Check) -> None:
    rewrites(
        """
        - def train(models, loader, criterion, optimizer):
        + def train(models, loader, criterion, optimizer, scaler):
              models[-1].eval()
              student = models[0]
              teacher = models[-1]
              for x, y in loader:
        ~         out = student(x)
        -         with torch.no_grad():
        +         with torch.no_grad():
        ~             target = teacher(x)
        ~         loss = criterion(out, target)
        ~         STEP

          models = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
          optimizer = torch.optim.SGD(models[0].parameters(), lr=0.1)
        - train(models, loader, nn.MSELoss(), optimizer)
        + scaler = torch.amp.GradScaler("cuda")
        + train(models, loader, nn.MSELoss(), optimizer, scaler)
        """
    )


def test_own_and_inherited_forward_of_a_module_that_trains_itself(rewrites: Check) -> None:
    rewrites(
        """
          class Base(nn.Module):
              def draw(self, count):
                  return self.forward(torch.randn(count, 2))

          class Generator(Base):
              def train_step(self, critic, optimizer, real):
        ~         fake = self.draw(4)
        ~         loss = critic(fake).mean() + self.forward(real).mean()
                  STEP
        """,
        dtype="bf16",
    )


def test_what_autocast_leaves_as_it_is_needs_no_region(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
          for x, y in loader:
              delta = torch.zeros_like(x)
              for _ in range(5):
                  delta.requires_grad = True
        ~         output = model(x + delta)
        ~         loss = nn.functional.cross_entropy(output, y)
                  optimizer.zero_grad()
        -         loss.backward()
        +         scaler.scale(loss).backward()
                  hit = output.max(1)[1] == y
                  delta.data[hit] = torch.clamp(delta + torch.sign(delta.grad), -0.1, 0.1)[hit]
              delta = delta.detach()
        ~     output = model(x + delta)
        ~     loss = nn.functional.cross_entropy(output, y)
              optimizer.zero_grad()
        ~     loss.backward()
        ~     optimizer.step()
        """
    )


@pytest.mark.parametrize("term", ["out.pow(2).mean()", "(out ** 2).mean()", "(out @ weights).mean()"])
def test_a_term_that_autocast_casts_for_has_its_region_behind_another_loss(rewrites: Check, term: str) -> None:
    rewrites(
        f"""
        ~ MODEL
          for x, y in loader:
        ~     out = model(x)
        ~     loss = nn.functional.mse_loss(out, y)
              optimizer.zero_grad()
        -     loss.backward(retain_graph=True)
        +     scaler.scale(loss).backward(retain_graph=True)
        ~     loss = {term}
        ~     loss.backward()
        ~     optimizer.step()
        """
    )
