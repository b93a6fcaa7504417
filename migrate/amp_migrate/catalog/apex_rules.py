"""Rules about Apex."""

from __future__ import annotations

from collections.abc import Mapping

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import APEX, APEX_AMP, APEX_REMOVAL, APEX_TRANSITION, EXAMPLES, TORCH
from amp_migrate.tables.apex_names import SHIM_SINCE

# Preparation and step move together.
_STEP = """
          import torch
        - from apex import amp

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        - model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
        + scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     loss = (model(x) - y).square().mean()
        -     with amp.scale_loss(loss, optimizer) as scaled_loss:
        -         scaled_loss.backward()
        -     optimizer.step()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (model(x) - y).square().mean()
        +     scaler.scale(loss).backward()
        +     scaler.step(optimizer)
        +     scaler.update()
        """

APEX_STEP = Rule(
    code="AMP201",
    name="apex-step",
    summary="a training step scaled by apex.amp",
    example=_STEP,
    why=(
        "NVIDIA deleted apex.amp in May 2025. The step moves to a native region and GradScaler as a "
        "whole; where the script also trains without Apex, the two branches become one with `enabled=`."
    ),
    sources=(APEX_REMOVAL, APEX_TRANSITION, f"{EXAMPLES}#typical-mixed-precision-training"),
)

APEX_INITIALIZE = Rule(
    code="AMP202",
    name="apex-initialize",
    summary="amp.initialize prepares models and optimizers for Apex",
    example=_STEP,
    why="Native AMP needs no preparation. The scaler is created in the place of the call.",
    sources=(APEX_REMOVAL, APEX_TRANSITION),
)

APEX_LEVEL = Rule(
    code="AMP210",
    name="apex-level",
    summary="an opt level or an override means something slightly different natively",
    example="""
        import torch
        from apex import amp

        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = amp.initialize(model, optimizer, opt_level="O2")

        for x, y in loader:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        """,
    why=(
        "O2 kept float16 weights with float32 masters; natively the weights are float32 under autocast. "
        "Inputs and outputs are not cast, and batch norm keeps float32 statistics."
    ),
    sources=(f"{APEX_AMP}#opt-levels",),
    safety=Safety.MANUAL,
)

# What is said of what cast models, and none of PyTorch's functions, by what it was; by None, where a run says.
MODELS_CAST: Mapping[str | None, str] = {
    "O2": "O2 kept float16 weights with float32 masters; now the weights are float32 under autocast",
    "O3": "O3 computed in float16 alone; now the weights are float32 under autocast",
    "FP16_Optimizer": (
        "FP16_Optimizer kept float16 weights with float32 masters; now the weights are float32 under autocast"
    ),
    None: "O2 and O3 asked for at run time now mean float32 weights under autocast",
}

APEX_EVALUATION = Rule(
    code="AMP211",
    name="apex-evaluation",
    summary="an evaluation forward stays in float32",
    example="""
        import argparse
        import torch
        from apex import amp


        def validate(model, loader):
            model.eval()
            with torch.no_grad():
                return sum((model(x) - y).square().mean() for x, y in loader)


        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--amp", action="store_true")
            args = parser.parse_args()
            model = torch.nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            if args.amp:
                model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
            for x, y in loader:
                optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                if args.amp:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    loss.backward()
                optimizer.step()
            for name, measure in {"loss": validate}.items():
                print(name, measure(model, loader))


        main()
        """,
    why=(
        "Apex patched the whole process. Where the script's switch cannot be asked at the forward, the region "
        "is round the calls of what evaluates; where a call is no statement of its own, the switch is handed on "
        "to the function by a parameter, which is off for everybody else. Where not every call is known, or one "
        "cannot ask for the switch either, no region is written."
    ),
    sources=(f"{APEX_AMP}#o1-mixed-precision-recommended-for-typical-use",),
    safety=Safety.MANUAL,
)

APEX_ON_SHIM = Rule(
    code="AMP290",
    name="apex-on-shim",
    summary="an Apex script has no native form and runs on amp_shim",
    example="""
          import torch
        - from apex import amp
        + from amp_shim import amp

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          model, optimizer = amp.initialize(model, optimizer, opt_level="O1", cast_model_outputs=torch.float32)

          for x, y in loader:
              optimizer.zero_grad()
              loss = (model(x) - y).square().mean()
              with amp.scale_loss(loss, optimizer) as scaled_loss:
                  scaled_loss.backward()
              optimizer.step()
        """,
    why=(
        "O3, static loss scales, cast functions and the like: all files of the script "
        "keep Apex's calls, which amp_shim answers on today's PyTorch."
    ),
    sources=(APEX_REMOVAL, APEX_AMP),
    since=SHIM_SINCE,
)

APEX_IMPORT = Rule(
    code="AMP301",
    name="apex-import",
    summary="an import of something that Apex has deleted",
    example="""
        - from apex.parallel import LARC
        + from amp_shim.parallel import LARC


          def adapt(optimizer):
              return LARC(optimizer)
        """,
    why=(
        "The shim has the same names with the same meaning, on torch's own parts. What nothing uses is not imported "
        "any more: a script needs no shim for it."
    ),
    sources=(APEX_REMOVAL,),
    since=SHIM_SINCE,
)

APEX_PARALLEL = Rule(
    code="AMP310",
    name="apex-parallel",
    summary="a class or function of apex.parallel that torch has itself",
    example="""
        - from apex.parallel import DistributedDataParallel
        + import torch


          def wrap(m):
        -     return DistributedDataParallel(m)
        +     return torch.nn.parallel.DistributedDataParallel(m, find_unused_parameters=True, broadcast_buffers=False)
        """,
    why=(
        "NVIDIA deleted apex.parallel in May 2025. Apex never synchronised buffers, so the new call says so. It took "
        "parameters that never get a gradient (with `delay_allreduce` others in each iteration, too), for which torch "
        "raises in the second iteration unless it is told to find them: drop `find_unused_parameters` where every "
        "parameter gets a gradient, training is a little faster without. It is not written where the project has "
        "`torch.utils.checkpoint`, or reads what a forward pass sets on its module: it would take parameters behind "
        "those for unused. How Apex cut its buckets changes no "
        "result and goes. `Reducer`, `LARC` and sums in place of averages have no form in torch, and come from "
        "amp_shim."
    ),
    sources=(APEX_REMOVAL, f"{APEX}/parallel.html"),
)

APEX_OPTIMIZER = Rule(
    code="AMP320",
    name="apex-optimizer",
    summary="an optimizer of Apex that torch has itself",
    example="""
        - import apex
        + import torch


          def make_optimizer(model):
        -     return apex.optimizers.FusedAdam(model.parameters(), lr=1e-3)
        +     return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
        """,
    why=(
        "FusedAdam is AdamW without weight decay unless it is told otherwise, and AdamW decays by 0.01 by default, so "
        "the decay is written out. `fused=True` keeps one kernel for all parameters. What torch computes otherwise "
        "or not at all (`bias_correction=False`, FusedLAMB, FusedNovoGrad) comes from amp_shim."
    ),
    sources=(f"{APEX}/optimizers.html", f"{TORCH}/generated/torch.optim.AdamW.html"),
)

APEX_NORMALIZATION = Rule(
    code="AMP330",
    name="apex-normalization",
    summary="a layer of apex.normalization that torch has itself",
    example="""
        - from apex.normalization import FusedRMSNorm
        + import torch


          def make_norm(width):
        -     return FusedRMSNorm(width)
        +     return torch.nn.RMSNorm(width, eps=1e-5)
        """,
    why=(
        "Parameters have the same names and meaning, so checkpoints still load. Torch's RMSNorm has another eps "
        "unless it is told. Under autocast torch's layers return float32, where Apex's returned float16."
    ),
    sources=(f"{APEX}/layernorm.html", f"{TORCH}/generated/torch.nn.RMSNorm.html"),
)

APEX_CONTRIB = Rule(
    code="AMP340",
    name="apex-contrib",
    summary="a class or function of apex.contrib that torch has itself",
    example="""
        - from apex.contrib.clip_grad import clip_grad_norm_
        + import torch


          def clip(model):
        -     clip_grad_norm_(model.parameters(), 1.0)
        +     torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        """,
    why="They take the same arguments and compute the same; torch's need no extension that has to be compiled.",
    sources=(f"{TORCH}/generated/torch.nn.utils.clip_grad_norm_.html",),
)

APEX_GONE = Rule(
    code="AMP390",
    name="apex-gone",
    summary="an import of something that Apex has deleted and the shim does not have",
    example="""
        from apex.RNN import LSTM


        def make_model():
            return LSTM(8, 16, num_layers=2)
        """,
    why="Replace its uses by torch's own classes by hand.",
    sources=(APEX_REMOVAL,),
    safety=Safety.MANUAL,
)

APEX_LEFT = Rule(
    code="AMP391",
    name="apex-left",
    summary="an import of something that Apex still has, and torch has not under another name",
    example="""
        from apex.contrib.xentropy import SoftmaxCrossEntropyLoss


        def compute_loss(logits, labels):
            return SoftmaxCrossEntropyLoss.apply(logits, labels)
        """,
    why="It goes on working where Apex is built with its CUDA extensions. The finding names what does without.",
    sources=("https://github.com/NVIDIA/apex#readme",),
    safety=Safety.MANUAL,
)

APEX_FRAMEWORK = Rule(
    code="AMP392",
    name="apex-framework",
    summary="a training framework that is told to use Apex",
    example="""
        from pytorch_lightning import Trainer

        trainer = Trainer(amp_backend="apex", amp_level="O2", precision=16)
        """,
    why=(
        "Lightning, Hugging Face's Trainer, mmengine and sentence-transformers have native mixed precision of their "
        "own behind another switch. The finding says which; its name depends on the framework's version, so nothing "
        "is changed."
    ),
    sources=(APEX_REMOVAL, "https://lightning.ai/docs/pytorch/stable/common/precision.html"),
    safety=Safety.MANUAL,
)

APEX_COPY = Rule(
    code="AMP393",
    name="apex-copy",
    summary="a copy of Apex among the files, which is not migrated",
    example="",
    why=(
        "A folder with Apex's setup.py and its package is Apex itself, with its examples and tests: not the user's to "
        "migrate. What is installed from it is Apex all the same. A folder that is named itself is searched."
    ),
    sources=(APEX_REMOVAL,),
    safety=Safety.MANUAL,
)
