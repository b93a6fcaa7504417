"""`torch.cuda.amp.GradScaler(...)` is `torch.amp.GradScaler("cuda", ...)`; type tests move with the constructor.

The old class is a subclass of the new one, so `isinstance(scaler, torch.cuda.amp.GradScaler)` is false for a new
scaler: constructor, annotation and `isinstance` change together.
"""

from amp_migrate.catalog.rule import Rule
from amp_migrate.catalog.sources import AMP, DEPRECATIONS
from amp_migrate.renames import convert_arguments
from amp_migrate.renames.rename import Rename

RULE = Rule(
    code="AMP103",
    name="grad-scaler",
    summary="torch.cuda.amp.GradScaler and torch.cpu.amp.GradScaler are deprecated since PyTorch 2.4",
    example="""
          import torch


          def prepare(use_amp):
        -     scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
        -     assert isinstance(scaler, torch.cuda.amp.GradScaler)
        +     scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
        +     assert isinstance(scaler, torch.amp.GradScaler)
              return scaler
        """,
    why=(
        "A positional `init_scale` would silently become the device of the new class. The old class is a subclass of "
        "the new one, so annotations and `isinstance` move together with the constructor."
    ),
    sources=(DEPRECATIONS, f"{AMP}#gradient-scaling"),
    since=(2, 3),
)
RENAMES = (
    *(
        Rename(
            f"torch.{device}.amp.{path}", "torch.amp.GradScaler", convert_arguments.grad_scaler(device), is_type=True
        )
        for device in ("cuda", "cpu")
        for path in ("GradScaler", "grad_scaler.GradScaler")
    ),
    Rename("torch.cuda.amp.grad_scaler.OptState", "torch.amp.grad_scaler.OptState"),
)
