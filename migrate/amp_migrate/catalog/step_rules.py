"""Rules about training steps in float32, and about the dtype of those that have AMP."""

from __future__ import annotations

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP, EXAMPLES

FP32_STEP = Rule(
    code="AMP501",
    name="fp32-step",
    summary="a training step in plain float32",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     loss = (model(x) - y).square().mean()
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (model(x) - y).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "Forward and loss compute in low precision; float16 gradients need a loss scale, and its scaler "
        "goes wherever the optimizer goes. Gradients are unscaled before anything reads them."
    ),
    sources=(f"{EXAMPLES}#typical-mixed-precision-training",),
)

ROUNDED_PROBABILITY = Rule(
    code="AMP502",
    name="rounded-probability",
    summary="a loss or a division reads probabilities that a sigmoid computes in low precision",
    example="""
        import torch
        from torch import nn

        heads = {"logits": nn.Identity, "probabilities": nn.Sigmoid}
        model = nn.Sequential(nn.Linear(3, 1), heads["probabilities"]())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.BCELoss()(model(x), y)
            loss.backward()
            optimizer.step()
        """,
    why=(
        "In float16 a sigmoid is exactly 1 for logits above 8 and exactly 0 below -17, in bfloat16 it is 1 above 6. "
        "Where the label is the other, BCELoss gives 1e12 back, and the sigmoid multiplies that by zero: in bfloat16 "
        "the gradient is 0, and in float16, where 1e12 is infinite, it is NaN at every scale, so that the scaler skips "
        "the steps and may never recover. What is divided by such a zero is infinite at once. Sigmoids that can be "
        "seen are given float32; one that nn.Sequential calls becomes one of a class that computes in it, `class "
        "Fp32Sigmoid(nn.Sigmoid)`, where `nn.Sigmoid()` stands. It is not where what is made there has another name, "
        "where code compares the class of modules with nn.Sigmoid, or its name, where the model is saved whole, which "
        "another program would load without that class, or where it gets float64. Let the model give logits, and use "
        "BCEWithLogitsLoss."
    ),
    sources=(f"{AMP}#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy",),
    safety=Safety.MANUAL,
)

SWITCH_ADDED = Rule(
    code="AMP503",
    name="switch-added",
    summary="a command line that gets an option for mixed precision, with --add-flag",
    example="""
          import argparse
          import torch

          parser = argparse.ArgumentParser()
          parser.add_argument("--lr", type=float)
        + parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True, help="mixed precision")
          args = parser.parse_args()
          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
        + scaler = torch.amp.GradScaler("cuda", enabled=args.amp)

          for x, y in loader:
              optimizer.zero_grad()
        -     loss = (model(x) - y).square().mean()
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16, enabled=args.amp):
        +         loss = (model(x) - y).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "With --no-amp every autocast and every GradScaler that was added is disabled, and the script trains as it "
        "did before it was moved: the two can be compared, and a doubt be settled, without a second copy. The flag "
        "goes to every region and scaler, through parameters where the parsed arguments are out of sight."
    ),
    sources=("https://docs.python.org/3/library/argparse.html#argparse.BooleanOptionalAction",),
    options=("--add-flag",),
)

SCALE_IT = (
    "call what takes them on a line of its own (`penalty = ...`), or scale the loss for it and divide its result by "
    "scaler.get_scale(), or run with --dtype bf16, which needs no scaler"
)
BY_PRECISION = "decide by hand which precision the model needs"
UNSCALE_FIRST = "if the limit is meant for true gradients, put the scaler's unscale_(optimizer) before it"
RISKY_NUMERICS = Rule(
    code="AMP504",
    name="risky-numerics",
    summary="a step that moves computes something that low precision may overflow or round",
    example="""
          import torch
          from torch import nn

          model = nn.Conv2d(3, 64, 3).cuda()
          optimizer = torch.optim.Adam(model.parameters())
        + scaler = torch.amp.GradScaler("cuda")

          for x, target in loader:
              optimizer.zero_grad()
        -     features = model(x).flatten(2)
        -     gram = features @ features.transpose(1, 2)
        -     loss = (gram - target).square().mean()
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         features = model(x).flatten(2)
        +         with torch.amp.autocast(device_type="cuda", enabled=False):
        +             gram = features.float() @ features.float().transpose(1, 2)
        +         loss = (gram - target).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "Autocast multiplies matrices in float16, which ends at 65,504: a product of features with themselves grows "
        "with their number, a running buffer with the steps. A statement that only computes such a thing is kept in "
        "float32, and this says so; so is the forward pass of a gradient penalty through a batch or instance norm, in "
        "whose second derivative 1/std**3 is. What is rounded loses what is left of it: a variance as E[x^2] - E[x]^2 "
        "may come to zero or below it, and near neighbours by x^2 - 2*x*y + y^2 are others. Whether that happens "
        "depends on the data, so the step moves, and this says where to look. A layer or a loss of code that is not "
        "among the files is kept in float32 where a model that can be read hands it half precision; of other losses "
        "and models of such code this names it."
    ),
    sources=(f"{AMP}#cuda-ops-that-can-autocast-to-float16",),
)

KEPT_FORWARD = Rule(
    code="AMP505",
    name="kept-forward",
    summary="a module that is to compute in float32 inside every region, with --keep-float32 or --profile",
    example="""
          import torch
          from torch import nn


          class Energy(nn.Module):
        +     @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
              def forward(self, x):
                  return x / x.square().sum(1, keepdim=True)


          model = nn.Sequential(nn.Linear(3, 64), Energy(), nn.Linear(64, 1))
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        + scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     loss = (model(x) - y).square().mean()
        -     loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (model(x) - y).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """,
    why=(
        "What overflows float16, or is rounded by it, is often one module: a codebook, a normalization by hand, an "
        "energy. `amp-verify localize` finds it by running the script, and its forward gets float32 inputs and no "
        "autocast. Outside every region the decorator does nothing."
    ),
    sources=(f"{AMP}#torch.amp.custom_fwd",),
    options=("--keep-float32", "Energy"),
    since=(2, 4),
)

OTHER_DTYPE = Rule(
    code="AMP510",
    name="other-dtype",
    summary="AMP code that is to compute in another dtype",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16):
                  loss = (model(x) - y).square().mean()
        -     scaler.scale(loss).backward()
        -     scaler.step(optimizer)
        -     scaler.update()
        +     loss.backward()
        +     optimizer.step()
        """,
    why=(
        "bfloat16 has the range of float32 and needs no loss scale: the scaler goes with every use of "
        "it, or is switched off where one use is not understood."
    ),
    sources=(f"{AMP}#autocasting",),
    options=(
        "--dtype",
        "bf16",
    ),
)

STEP_LEFT = Rule(
    code="AMP590",
    name="step-left",
    summary="a training step that stays as it was",
    example="""
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.LBFGS(model.parameters())


        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            return loss


        optimizer.step(closure)
        """,
    why=(
        "A step moves as a whole or not at all. The finding names the part that stands in the way and "
        "what to write by hand."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)

OTHER_PRECISION = Rule(
    code="AMP591",
    name="other-precision",
    summary="training whose precision is set elsewhere",
    example="""
        import torch
        from accelerate import Accelerator

        accelerator = Accelerator()
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = accelerator.prepare(model, optimizer)

        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            accelerator.backward(loss)
            optimizer.step()
        """,
    why=("A framework or a sharding wrapper has a precision switch of its own; a second one around it would be wrong."),
    sources=("https://huggingface.co/docs/accelerate/usage_guides/low_precision_training",),
    safety=Safety.MANUAL,
)

NO_SWITCH = Rule(
    code="AMP593",
    name="no-switch",
    summary="--add-flag found no command line for an option, or no way from it to what was moved",
    example="""
        import torch

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
        """,
    why=(
        "An option that switched a part of the regions and scalers would be worse than none: scaling would be off "
        "where float16 is on. The step itself has moved, and its mixed precision is always on."
    ),
    sources=("https://docs.python.org/3/library/argparse.html#argparse.BooleanOptionalAction",),
    safety=Safety.MANUAL,
    options=("--add-flag",),
)
