"""Rules about deprecated names that have no file of their own, and the codes of those that others ask for."""

from __future__ import annotations

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import DEPRECATIONS

CUDA_AUTOCAST_CODE = "AMP101"
GRAD_SCALER_CODE = "AMP103"

IMPORT_NOT_FOLLOWED = Rule(
    code="AMP190",
    name="import-not-followed",
    summary="a deprecated import stays because what it brings cannot be followed",
    example="""
        from torch.cuda.amp import *
        """,
    why=(
        "A star import of which nothing is used, or a name that other files take from this one: rewriting it here "
        "could break code elsewhere. Where every use in the project is understood, the definition and all its uses "
        "move in one go; otherwise the finding names the first that is not. Files that are given one by one may hide "
        "others."
    ),
    sources=(DEPRECATIONS,),
    safety=Safety.MANUAL,
)
