"""What has no native form keeps Apex's calls, and gets them from `amp_shim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amp_migrate.report.finding import Finding

Check = Callable[..., Any]


@pytest.fixture
def serves(migrate: Check) -> Callable[[str, str], None]:
    """Assert that only the import of a script changes, and that a finding says `why`."""

    def check(text: str, why: str) -> None:
        plan = migrate(text)
        assert plan.after == plan.source.text.replace("from apex import amp", "from amp_shim import amp")
        assert plan.changed
        said: list[Finding] = [finding for finding in plan.findings if finding.code == "AMP290"]
        assert [finding for finding in said if why in f"{finding.message} {finding.hint}"], said

    return check


def test_level_of_rocm(serves: Check) -> None:
    serves(
        """
        from apex import amp

        MODEL
        model, optimizer = amp.initialize(model, optimizer, opt_level="O5")
        APEX_EPOCH
        """,
        "opt_level 'O5' has no native form",
    )


def test_starred_arguments(serves: Check) -> None:
    serves(
        """
        from apex import amp

        MODEL
        model, optimizer = amp.initialize(model, optimizer, *options)
        APEX_EPOCH
        """,
        "the arguments of amp.initialize are starred",
    )


def test_result_taken_apart(serves: Check) -> None:
    serves(
        """
        from apex import amp

        MODEL
        model, optimizer = prepared(*amp.initialize(model, optimizer, opt_level="O1"))
        APEX_EPOCH
        """,
        "taken apart in a way that is not understood",
    )


MORE_UNDER_THE_SCALE = """
    from apex import amp

    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    INITIALIZE
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        SCALE_LOSS
            {more}
        optimizer.step()
"""


@pytest.mark.parametrize("more", ["optimizer.step()", "print(scaled_loss)", "model(x).mean().backward()", "model(y)"])
def test_training_goes_on_under_the_scale(more: str, serves: Check) -> None:
    serves(MORE_UNDER_THE_SCALE.format(more=more), "does more than go backward")


@pytest.mark.parametrize(
    "context",
    ["amp.scale_loss(loss, optimizer)", "amp.scale_loss(loss, optimizer) if args.fp16 else nullcontext(loss)"],
)
def test_scale_that_is_not_only_opened(context: str, serves: Check) -> None:
    serves(
        f"""
        from contextlib import nullcontext
        from apex import amp

        MODEL
        INITIALIZE
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            context = {context}
            tell(context)
            with context as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        """,
        "is not what a with statement opens by itself",
    )


def test_gradients_of_one_micro_batch_are_reduced_under_the_scale(serves: Check) -> None:
    serves(
        """
        from apex import amp

        model = nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        INITIALIZE
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x), y)
            SCALE_LOSS
                all_reduce([p.grad for p in model.parameters()])
            if step % 4 == 3:
                optimizer.step()
        """,
        "sees the gradients of one backward(), without those before it",
    )


def test_gradients_of_one_of_two_losses_are_reduced_under_the_scale(serves: Check) -> None:
    serves(
        """
        from apex import amp

        model = nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        INITIALIZE
        for x, y in loader:
            first, second = model(x).mean(), model(y).mean()
            with amp.scale_loss(first, optimizer) as scaled_loss:
                scaled_loss.backward()
            with amp.scale_loss(second, optimizer) as scaled_loss:
                scaled_loss.backward()
                all_reduce([p.grad for p in model.parameters()])
            optimizer.step()
        """,
        "sees the gradients of one backward(), without those before it",
    )


def test_function_that_clips_under_the_scale_of_one_of_several_micro_batches(serves: Check) -> None:
    serves(
        """
        from apex import amp

        def train_step(model, optimizer, x, y):
            loss = nn.functional.mse_loss(model(x), y)
            SCALE_LOSS
                nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)

        def main(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model, optimizer = amp.initialize(model, optimizer)
            for step, (x, y) in enumerate(loader):
                train_step(model, optimizer, x, y)
                if step % 4 == 3:
                    optimizer.step()
        """,
        "sees the gradients of one backward(), without those before it",
    )


def test_step_with_a_closure(serves: Check) -> None:
    serves(
        """
        from apex import amp

        model = nn.Linear(2, 2)
        optimizer = torch.optim.LBFGS(model.parameters())
        INITIALIZE

        def closure():
            loss = model(x).mean()
            SCALE_LOSS
            return loss

        optimizer.step(closure)
        """,
        "optimizer.step(closure) cannot be used",
    )


def test_function_registered_for_casts(serves: Check) -> None:
    serves(
        """
        from apex import amp

        nms = amp.float_function(_C.nms)
        """,
        "no script that is seen to use amp.float_function here is among the files",
    )


def test_function_that_casts_to_half(serves: Check) -> None:
    serves(
        """
        import kernels
        from apex import amp

        @amp.half_function
        def mix(x, y):
            return kernels.mix(x, y)

        INITIALIZE
        """,
        "amp.half_function has no native form",
    )


def test_optimizer_whose_step_is_not_there(serves: Check) -> None:
    serves(
        """
        from apex import amp
        from timm.utils import ApexScaler

        INITIALIZE
        loss_scaler = ApexScaler()
        """,
        "no step that scales its loss is among the files",
    )


def test_gradients_that_are_clipped_in_every_micro_batch(serves: Check) -> None:
    serves(
        """
        from apex import amp

        MODEL
        INITIALIZE
        for step, x in enumerate(loader):
            loss = model(x).mean()
            SCALE_LOSS
            clipper.step(amp.master_params(optimizer))
            if step % 4 == 3:
                optimizer.step()
        """,
        "gradients are read where the optimizer does not always step",
    )


@pytest.mark.parametrize(
    "more",
    [
        'args.level = "O1"\n        model, optimizer = amp.initialize(model, optimizer, opt_level=args.level)',
        "model, optimizer = amp.initialize(model, optimizer, max_loss_scale=512.0)",
        'print("float32")',
    ],
)
def test_branches_that_initialize_apex_in_different_ways(more: str, serves: Check) -> None:
    serves(
        f"""
    from apex import amp

    MODEL
    if args.first:
        {more}
    elif args.second:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    else:
        INITIALIZE
    APEX_EPOCH
        """,
        "amp.initialize stands in one of several branches",
    )


def test_amp_passed_on(serves: Check) -> None:
    serves(
        """
        from apex import amp

        run(model, optimizer, amp)
        """,
        "amp itself is used as a value",
    )


def test_stub_in_its_place(serves: Check) -> None:
    serves(
        """
        try:
            from apex import amp
        except ImportError:
            class amp:
                @staticmethod
                def initialize(*args, **kwargs): return args

        MODEL
        INITIALIZE
        APEX_EPOCH
        """,
        "amp itself is used as a value",
    )


def test_no_scaler_where_the_state_is_saved(serves: Check) -> None:
    serves(
        """
        from apex import amp

        def save(path):
            torch.save({"amp": amp.state_dict()}, path)

        def main():
            MODEL
            INITIALIZE
            APEX_EPOCH
            save("last.pt")
        """,
        "no way for the scaler",
    )


def test_initialized_elsewhere(serves: Check) -> None:
    serves(
        """
        from apex import amp

        def train(model, optimizer, loader):
            APEX_EPOCH
        """,
        "amp.initialize is not among the files",
    )


def test_other_file_of_the_same_script(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "engine.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp

                  def train(model, optimizer, loader):
                      for x in loader:
                          loss = model(x).mean()
                          with amp.scale_loss(loss, optimizer, delay_overflow_check=True) as scaled_loss:
                              scaled_loss.backward()
                          optimizer.step()
                """,
            "main.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp
                  from engine import train

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  INITIALIZE
                  train(model, optimizer, [])
                """,
        },
    )


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_step_elsewhere_that_apex_only_casts_stays_beside_the_shim(rewrites_files: Check, dtype: str) -> None:
    findings = rewrites_files(
        {
            "engine.py": """
                  import torch

                  def train(model, optimizer, loader):
                      for x in loader:
                          loss = model(x).mean()
                          loss.backward()
                          optimizer.step()
                """,
            "main.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp
                  from engine import train

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  INITIALIZE
                  train(model, optimizer, [])
                """,
        },
        dtype=dtype,
    )
    reason = "Apex prepares its optimizer, and casts what is computed here though nothing scales the loss (main.py:7)"
    assert f"step left as it was: {reason}" in [each.message for each in findings]


def test_script_of_another_folder_is_decided_by_itself(rewrites_files: Check) -> None:
    rewrites_files(
        {
            "a/train.py": """
                  import torch
                - from apex import amp

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                ~ INITIALIZE
                ~ APEX_EPOCH
                """,
            "b/train.py": """
                  import torch
                - from apex import amp
                + from amp_shim import amp

                  model = torch.nn.Linear(2, 2)
                  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                  model, optimizer = amp.initialize(model, optimizer, opt_level="O5")
                  APEX_EPOCH
                """,
        },
    )


def test_only_the_apex_half_of_a_script_with_native_amp_goes_to_the_shim(migrate: Check) -> None:
    plan = migrate(
        """
        from apex import amp

        MODEL
        scaler = torch.cuda.amp.GradScaler()
        if args.apex:
            INITIALIZE
        for x in loader:
            if args.apex:
                loss = model(x).mean()
                APEX_STEP
            else:
                with torch.cuda.amp.autocast():
                    loss = model(x).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        print(args.apex)
        """
    )
    renamed = plan.source.text.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")')
    renamed = renamed.replace(
        "torch.cuda.amp.autocast()", 'torch.amp.autocast(device_type="cuda", dtype=torch.float16)'
    )
    assert plan.after == renamed.replace("from apex import amp", "from amp_shim import amp")


@pytest.mark.parametrize("amp", ["", ", amp"])
def test_a_loss_that_an_unknown_amp_scales_is_told(amp: str, leaves: Check) -> None:
    leaves(
        f"""
        def train(model, loader, optimizer, args{amp}):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                if args.fp16:
                    with amp.scale_loss(loss, optimizer) as scaled_loss:
                        scaled_loss.backward()
                else:
                    loss.backward()
                optimizer.step()
        """,
        "nothing that can be seen says what amp is, which is Apex's by its name alone",
    )


@pytest.mark.parametrize(
    "line", ["from amp_shim import amp", "from mxnet.contrib import amp", "import deepspeed as amp"]
)
def test_a_loss_that_a_known_amp_scales_is_no_matter(line: str, ignores: Check) -> None:
    ignores(
        f"""
        {line}

        def train(model, loader, optimizer):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                with amp.scale_loss(loss, optimizer) as scaled_loss:
                    scaled_loss.backward()
                optimizer.step()
        """
    )
