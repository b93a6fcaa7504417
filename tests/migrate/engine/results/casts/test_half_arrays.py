"""What a float16 region gives to code that may not take half precision is float32, as an array of NumPy's, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., Any]
HEAD = """import cv2
import numpy as np
import torch
from scipy import ndimage
from torch import nn
from torchvision.utils import save_image

"""
TRAINING = """
MODEL
EPOCH
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cv2.resize(model(x).cpu().numpy(), (4, 4))", "cv2.resize(model(x).float().cpu().numpy(), (4, 4))"),
        ("cv2.resize(np.array(model(x).cpu()), (4, 4))", "cv2.resize(np.array(model(x).float().cpu()), (4, 4))"),
        ("ndimage.zoom(model(x)[0].cpu().numpy().T, 2)", "ndimage.zoom(model(x)[0].float().cpu().numpy().T, 2)"),
        (
            "cv2.blur(np.abs(model(x).numpy()).transpose((1, 0)) * 255, (3, 3))",
            "cv2.blur(np.abs(model(x).float().numpy()).transpose((1, 0)) * 255, (3, 3))",
        ),
        ("cv2.blur(model(x).numpy()[0], (3, 3))", "cv2.blur(model(x).float().numpy()[0], (3, 3))"),
        ("np.linalg.norm(model(x).numpy())", "np.linalg.norm(model(x).float().numpy())"),
        ("model(x).numpy().sum()", "model(x).float().numpy().sum()"),
        ("model(x).numpy() * 255", "model(x).float().numpy() * 255"),
        ("2 ** model(x).cpu().numpy()", "2 ** model(x).float().cpu().numpy()"),
        ("model(x).numpy() * 255 * np.zeros(4)", "model(x).float().numpy() * 255 * np.zeros(4)"),
        # What is of the order of one stays near that.
        ("1 - model(x).numpy() * 0.5", "1 - model(x).numpy() * 0.5"),
        ("model(x).numpy() * np.zeros(4) * 255", "model(x).numpy() * np.zeros(4) * 255"),
        # What is not in half precision any more, or goes nowhere.
        ("model(x).cpu().numpy()", "model(x).cpu().numpy()"),
        ("cv2.blur(model(x).numpy().astype(np.uint8), (3, 3))", "cv2.blur(model(x).numpy().astype(np.uint8), (3, 3))"),
        ("cv2.blur(np.array(model(x), np.uint8), (3, 3))", "cv2.blur(np.array(model(x), np.uint8), (3, 3))"),
        ("cv2.blur(model(x).argmax(1).numpy(), (3, 3))", "cv2.blur(model(x).argmax(1).numpy(), (3, 3))"),
        ("cv2.blur(model(x).numpy() + np.zeros(4), (3, 3))", "cv2.blur(model(x).numpy() + np.zeros(4), (3, 3))"),
        ("cv2.blur(x.numpy(), (3, 3))", "cv2.blur(x.numpy(), (3, 3))"),
        ("np.mean(model(x).numpy())", "np.mean(model(x).numpy())"),
    ],
)
def test_array_without_a_name(migrate: Check, before: str, after: str) -> None:
    text = f"{TRAINING}with torch.no_grad():\n    print(model(x).shape)\n    found.append({before})\n"
    plan = migrate(text, "fp16", HEAD)
    assert f"found.append({after})\n" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


ACTIONS = """
MODEL
EPOCH
env, state = {env}, torch.rand(2, 4)
with torch.no_grad():
    action = torch.tanh(model(state))
    state = env.step({given})
"""


@pytest.mark.parametrize(
    ("env", "before", "after"),
    [
        ("gymnasium.make('Hopper-v5')", "action.cpu().numpy()", "action.float().cpu().numpy()"),
        ("gymnasium.vector.Env(2).unwrapped", "action.cpu().numpy()[0]", "action.float().cpu().numpy()[0]"),
        ("gymnasium.make('Hopper-v5')", "action.argmax(1).numpy()", "action.argmax(1).numpy()"),
        ("gymnasium.make('Hopper-v5')", "state.numpy()", "state.numpy()"),
    ],
)
def test_an_array_for_an_object_of_another_package(migrate: Check, env: str, before: str, after: str) -> None:
    plan = migrate(ACTIONS.format(env=env, given=before), "fp16", f"import gymnasium\n{HEAD}")
    assert f"env.step({after})\n" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


HANDED_IN = """
MODEL
EPOCH
def play(env, memory):
    state = torch.rand(2, 4)
    with torch.no_grad():
        action = torch.tanh(model(state))
        {call}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("state = env.step(action.cpu().numpy())", "state = env.step(action.float().cpu().numpy())"),
        ("state = env.envs[0].step(action[0].numpy())", "state = env.envs[0].step(action[0].float().numpy())"),
        ("env.step(action.argmax(1).cpu().numpy())", "env.step(action.argmax(1).cpu().numpy())"),
        ("memory.append(action.cpu().numpy())", "memory.append(action.cpu().numpy())"),
    ],
)
def test_an_array_for_an_object_that_is_handed_in(migrate: Check, before: str, after: str) -> None:
    plan = migrate(HANDED_IN.format(call=before), "fp16", HEAD)
    assert f"{after}\n" in plan.after
    assert "AMP504" not in {each.code for each in plan.findings}


def test_output_that_goes_to_another_package(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          with torch.no_grad():
              for number, (x, y) in enumerate(loader):
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
        -         out = model(x)
        -         save_image(out[:8], f"{number}.png")
        +         save_image(out[:8].float(), f"{number}.png")
        """,
        head=HEAD,
    )


def test_arrays_that_are_put_together(rewrites: Check) -> None:
    rewrites(
        """
        ~ MODEL
        ~ EPOCH
          found = []
          with torch.no_grad():
              for x, y in loader:
        +         with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +             out = model(x)
        -         out = model(x)
        -         found.append(out.cpu().numpy())
        +         found.append(out.float().cpu().numpy())
          cv2.imwrite("all.png", np.concatenate(found, axis=0))
        """,
        head=HEAD,
    )


REGISTRY = """
  class Registry:
      def __init__(self):
          self.kinds = {}

      def add(self, cls):
          self.kinds[cls.__name__] = cls
          return cls


  JUDGES = Registry()


  def build(cfg, **given):
      args = dict(cfg)
      kind = JUDGES.kinds.get(args.pop("type"))
      for name, value in given.items():
          args.setdefault(name, value)
      return kind(**args)
"""


def test_array_that_a_method_of_another_file_makes(rewrites_files: Check) -> None:
    findings = rewrites_files(
        {
            "registry.py": REGISTRY,
            "judge.py": """
                  import cv2
                  import torch
                  from registry import JUDGES


                  @JUDGES.add
                  class Lanes:
                      def __init__(self, size):
                          self.size = size

                      def look(self, dataset, out):
                -         maps = torch.tanh(out["map"]).cpu().numpy()
                +         maps = torch.tanh(out["map"].float()).cpu().numpy()
                          for one in maps:
                              dataset.lanes(one)


                  class Roads:
                      def lanes(self, maps):
                          for lane in maps[1:]:
                              cv2.blur(lane, (9, 9))
            """,
            "train.py": """
                  import torch
                  import torch.nn as nn
                  from judge import Roads
                  from registry import build


                  class Net(nn.Module):
                      def __init__(self):
                          super().__init__()
                          self.body = nn.Conv2d(3, 5, 3, padding=1)

                      def forward(self, x):
                          return {"map": self.body(x)}


                  class Runner:
                      def __init__(self):
                          self.net = Net().cuda()
                          self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
                +         self.scaler = torch.amp.GradScaler("cuda")
                          self.judge = build({"type": "Lanes"}, size=9)

                      def train(self, batches):
                          for image, label in batches:
                -             out = self.net(image.cuda())
                -             loss = nn.functional.cross_entropy(out["map"], label.cuda())
                +             with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +                 out = self.net(image.cuda())
                +                 loss = nn.functional.cross_entropy(out["map"], label.cuda())
                              self.optimizer.zero_grad()
                -             loss.backward()
                -             self.optimizer.step()
                +             self.scaler.scale(loss).backward()
                +             self.scaler.step(self.optimizer)
                +             self.scaler.update()

                      def validate(self, batches):
                          self.net.eval()
                          for image, label in batches:
                              with torch.no_grad():
                -                 out = self.net(image.cuda())
                +                 with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
                +                     out = self.net(image.cuda())
                                  self.judge.look(Roads(), out)


                  data = [(torch.rand(2, 3, 32, 32), torch.randint(0, 5, (2, 32, 32))) for _ in range(2)]
                  runner = Runner()
                  runner.train(data)
                  runner.validate(data)
            """,
        }
    )
    assert ("judge.py", "AMP504") in {(each.path.rpartition("/")[2], each.code) for each in findings}


@pytest.mark.parametrize("kept", ["codes.tofile(path)", "np.save(path, codes)"])
def test_an_array_of_what_nobody_knows_is_evaluated_in_float32_where_it_may_not_be_low(
    migrate: Check, kept: str
) -> None:
    """A cast might be of whole numbers: the layers of another package give what they give."""
    text = f"""
import numpy as np
from graphs import Convolution


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Convolution(8, 8), Convolution(8, 2)

    def forward(self, nodes, edges):
        return self.last(self.first(nodes, edges), edges)


graph = Graph().cuda()
optimizer = torch.optim.Adam(graph.parameters())
for nodes, edges, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(graph(nodes.cuda(), edges.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
with torch.no_grad():
    codes = graph(nodes.cuda(), edges.cuda()).cpu().numpy()
{kept}
"""
    plan = migrate(text, "fp16", "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n")
    assert "with torch.no_grad():\n    codes = graph(nodes.cuda(), edges.cuda()).cpu().numpy()\n" in plan.after
    assert "scaler.step(optimizer)" in plan.after
    assert any("could not be read: graphs.Convolution" in each.message for each in plan.findings)


CHOSEN = """
class Layer(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = norm
        if self.norm == "batch":
            self.norm_layer = nn.BatchNorm2d(3)
        elif self.norm == "instance":
            self.norm_layer = nn.InstanceNorm2d(3)

    def forward(self, x):
        if self.norm:
            return self.norm_layer(self.conv(x))
        else:
            return self.conv(x)


model = {model}.cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        out = model(x.cuda())
    out = out.permute(0, 2, 3, 1).cpu().detach().numpy().squeeze(0)
    print(cv2.blur(out, (3, 3)).mean())
"""


@pytest.mark.parametrize(
    "model", ["Layer()", 'Layer("batch")', "Layer(sys.argv[1])", 'nn.Sequential(Layer("instance"), Layer())']
)
def test_array_of_a_layer_that_is_made_for_some_values_alone(migrate: Check, model: str) -> None:
    plan = migrate(CHOSEN.format(model=model), "fp16", f"import sys\n{HEAD}")
    assert 'with torch.amp.autocast(device_type="cuda", dtype=torch.float16):\n            out = model(' in plan.after
    assert "out = out.float().permute(0, 2, 3, 1)" in plan.after


def test_array_of_what_a_training_region_may_make_low_is_told(migrate: Check) -> None:
    seen = "cv2.blur(out.permute(0, 2, 3, 1).detach().cpu().numpy()[0], (3, 3))"
    text = f"""
class Layer(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), norm

    def forward(self, x):
        if self.norm:
            return self.layer_of_others(self.conv(x))
        return self.conv(x)


model = Layer(len(sys.argv)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    optimizer.zero_grad()
    out = model(x.cuda())
    loss = nn.functional.mse_loss(out, y.cuda())
    loss.backward()
    optimizer.step()
    print({seen}.mean())
"""
    plan = migrate(text, "fp16", f"import sys\n{HEAD}")
    assert seen in plan.after
    assert any("gets an array in half precision" in each.message for each in plan.findings)
