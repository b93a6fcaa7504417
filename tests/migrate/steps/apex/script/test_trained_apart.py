"""Methods of models that train something by themselves in an Apex script, as LBFGS fits a temperature."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import Any

Check = Callable[..., Any]

FITTED = """
  class Scaled(nn.Module):
      def __init__(self, model):
          super().__init__()
          self.model = model
          self.temperature = nn.Parameter(torch.ones(1))
      def fit(self, loader):
          with torch.no_grad():
              for x, y in loader:
                  {forward}
          optimizer = torch.optim.LBFGS([self.temperature], lr=0.01)
          def closure():
              loss = nn.functional.cross_entropy(logits / self.temperature, y)
              loss.backward()
              return loss
          optimizer.step(closure)
"""
TRAINER = """
  class Trainer:
      def __init__(self, model, fp16):
          self.model = model.cuda()
          self.fp16 = fp16
          self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
          {prepared}
      def train(self, loader):
          for x, y in loader:
              {trained}
      def calibrate(self, loader):
          self.model = Scaled(self.model).cuda()
          self.model.fit(loader)
  trainer = Trainer(nn.Linear(2, 2), True)
  trainer.train(loader)
  trainer.calibrate(loader)
"""
FORWARD = "logits = self.model(x.cuda())"
INITIALIZE = 'self.model, self.optimizer = amp.initialize(self.model, self.optimizer, opt_level="O1")'
STEP = """
loss = nn.functional.cross_entropy(self.model(x), y)
with amp.scale_loss(loss, self.optimizer) as scaled_loss:
    scaled_loss.backward()
self.optimizer.step()
self.optimizer.zero_grad()
"""


def script(prepared: str) -> str:
    trained = indent(STEP.strip(), " " * 14).strip()
    text = FITTED.format(forward=FORWARD) + TRAINER.format(prepared=prepared, trained=trained)
    return "from apex import amp\n" + "\n".join(line[2:] for line in text.split("\n"))


def test_the_forward_alone_has_its_region(migrate: Check) -> None:
    plan = migrate(script(INITIALIZE))
    assert "from apex" not in plan.after
    assert plan.after.count("torch.amp.autocast(") == 2
    _, _, fit = plan.after.partition("def fit(")
    assert fit.split("\n")[3].strip().startswith("with torch.amp.autocast(")
    assert fit.split("\n")[4].strip() == FORWARD


def test_where_the_switch_cannot_be_asked_for_it_stays_in_float32_and_is_told(migrate: Check) -> None:
    plan = migrate(script(f"if fp16:\n{' ' * 14}{INITIALIZE}"))
    assert "from apex" not in plan.after
    assert plan.after.count("torch.amp.autocast(") == 1
    (told,) = (each for each in plan.findings if each.code == "AMP211")
    assert plan.source.text.split("\n")[told.line - 1].strip() == FORWARD
