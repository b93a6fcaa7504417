"""A function that makes global optimizers makes their scaler, which is global as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[..., Any]

GAN = """
          D = opt_d = None


          def build():
        -     global G, D, opt_g, opt_d  # what all share
        +     global G, D, opt_g, opt_d, scaler  # what all share
              G, D = nn.Linear(8, 64).cuda(), nn.Linear(64, 1).cuda()
              opt_g = torch.optim.Adam(G.parameters())
              opt_d = torch.optim.Adam(D.parameters())
        +     scaler = torch.amp.GradScaler("cuda")


          def d_step(x):
              global D, opt_d
              opt_d.zero_grad()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (D(x.cuda()) - 1).tanh().mean() - D(G(torch.rand(len(x), 8).cuda()).detach()).tanh().mean()
        -     loss = (D(x.cuda()) - 1).tanh().mean() - D(G(torch.rand(len(x), 8).cuda()).detach()).tanh().mean()
        -     loss.backward()
        +     scaler.scale(loss).backward()
        +     scaler.unscale_(opt_d)
              nn.utils.clip_grad_norm_(D.parameters(), 1.0)
        -     opt_d.step()
        +     scaler.step(opt_d)
        +     scaler.update()


          def g_step(x):
              opt_g.zero_grad()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = D(G(torch.rand(len(x), 8).cuda())).tanh().mean()
        -     loss = D(G(torch.rand(len(x), 8).cuda())).tanh().mean()
        -     loss.backward()
        +     scaler.scale(loss).backward()
        -     opt_g.step()
        +     scaler.step(opt_g)
        +     scaler.update()


          def main(loader):
              build()
              for x in loader:
                  d_step(x)
                  g_step(x)
        -     torch.save({"d": opt_d.state_dict(), "g": opt_g.state_dict()}, "gan.pt")
        +     torch.save({"d": opt_d.state_dict(), "g": opt_g.state_dict(), "scaler": scaler.state_dict()}, "gan.pt")


          main([])
"""
STEP = """\
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()


"""


def test_the_scaler_of_global_optimizers_is_global(rewrites: Check) -> None:
    plan = rewrites(GAN)
    assert {each.code for each in plan.findings} == {"AMP501"}


def test_an_optimizer_that_two_functions_make(leaves: Check) -> None:
    leaves(
        f"{STEP}def first():\n    global model, optimizer\n    model = nn.Linear(8, 4).cuda()\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n\n\n"
        "def second():\n    global optimizer\n    optimizer = torch.optim.Adam(model.parameters())\n",
        "where `optimizer` is made cannot be seen",
    )


def test_optimizers_that_two_functions_make_have_a_scaler_each(migrate: Check) -> None:
    other = STEP.replace("optimizer", "opt").replace("step(x", "other_step(x").replace("model", "net")
    made = "def make():\n    global model, optimizer\n    model = nn.Linear(8, 4).cuda()\n"
    made += "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n\n\n"
    beside = made.replace("make()", "make_other()").replace("optimizer", "opt").replace("model", "net")
    plan = migrate(f"{STEP}{other}{made}{beside}".replace("torch.opt.", "torch.optim."))
    assert "    global model, optimizer, scaler\n" in plan.after
    assert "    global net, opt, grad_scaler\n" in plan.after
    assert "    grad_scaler.step(opt)\n" in plan.after
