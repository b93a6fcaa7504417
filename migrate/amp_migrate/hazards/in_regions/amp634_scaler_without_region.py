"""A loss is scaled, and nothing is computed in half precision anywhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

from amp_migrate.catalog.rule import Rule, Safety
from amp_migrate.catalog.sources import AMP
from amp_migrate.flow.domain.atoms import Atom, Obj, Opaque, Part
from amp_migrate.flow.events import Act, Event
from amp_migrate.flow.source import Site
from amp_migrate.hazards.seen.autocast_regions import only_switches_off
from amp_migrate.hazards.seen.hazard import Hazard
from amp_migrate.hazards.seen.script import Script
from amp_migrate.tables.torch_names import OPENING_NO_REGIONS

RULE = Rule(
    code="AMP634",
    name="scaler-without-region",
    summary="a loss is scaled that nothing computes in half precision",
    example="""
          import torch

          model = torch.nn.Linear(3, 1)
          optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
          scaler = torch.amp.GradScaler("cuda")

          for x, y in loader:
              optimizer.zero_grad()
        -     loss = (model(x) - y).square().mean()
        +     with torch.amp.autocast(device_type="cuda", dtype=torch.float16):
        +         loss = (model(x) - y).square().mean()
              scaler.scale(loss).backward()
              scaler.step(optimizer)
              scaler.update()
        """,
    why=(
        "A GradScaler keeps small gradients from becoming zero in float16. Where nothing is float16 it costs a pass "
        "over all gradients in each step, and training takes as long, and as much memory, as without it. It is told "
        "where the model is seen, and no file of the script speaks of autocast, but to switch it off, of half "
        "precision, or of a framework with its own, or where all regions are seen and none of them has more of the "
        "model than its loss. So it is of a region for a GPU in which weights meet what is on the CPU for certain."
    ),
    sources=(f"{AMP}#gradient-scaling",),
    safety=Safety.MANUAL,
)
FLOAT16_ONLY = True
_AROUND_MODEL = "put the forward pass of the model into it, with the loss, or drop it and the scaler"
_ON_CPU = "everything is on the CPU, which autocast for a GPU leaves as it is"
_ON_GPU = "train on the GPU, or drop it and the scaler"
_MEETS_CPU = "weights meet what is on the CPU for certain, where autocast for a GPU does nothing"
_TO_MODEL = "move what the model is given to where the model is"
_IMPORTS = 8
_PACKAGES = ("accelerate", "deepspeed", "lightning")
_OTHERS = (
    "autocast",
    "custom_fwd",
    "half",
    "float16",
    "bfloat16",
    "HalfTensor",
    *_PACKAGES,
)


def detect(script: Script) -> Iterator[Hazard]:
    """Every backward of a scaled loss of models that are seen, in a script none of whose files has half precision.

    Then no function that was not looked at opens a region either. Other scripts beside it may have some. Where a script
    has regions, it is they that are told of, if none of them has more of the model than its loss.
    """
    if script.moved or not script.courses:
        return
    file, interpreted, questions = script.file, script.flowing.interpreted, script.flowing.questions
    scaled = [each for each in questions.events(Act.BACKWARD) if questions.is_scaled(each) and _is_seen(script, each)]
    idle = {each.site: (each.what, _AROUND_MODEL) for each in questions.idle_regions()} if scaled else {}
    if scaled and questions.is_on_cpu:
        on_cpu = {each.site for each in questions.events(Act.REGION) if each.why == "cuda"}
        idle |= dict.fromkeys(sorted(on_cpu), (_ON_CPU, _ON_GPU))
    elif scaled:
        idle |= dict.fromkeys(sorted(questions.on_cpu), (_MEETS_CPU, _TO_MODEL))
    for site, (what, hint) in idle.items():
        if (region := interpreted.node_at(file, site)) is not None:
            yield Hazard(region, f"in {file.tree.quote(region)} {what}", hint)
    if not scaled or any(map(partial(_is_used, script), _OTHERS)):
        return
    for call in (node for each in scaled if (node := interpreted.node_at(file, each.site)) is not None):
        yield Hazard(
            call,
            f"{file.tree.quote(call)} is the backward of a scaled loss, and nothing computes in float16",
            "put the forward pass and the loss into torch.amp.autocast(...), or drop the scaler",
        )


def _is_seen(script: Script, backward: Event) -> bool:
    """Whether the models are that a loss comes from; it may come from more than is trained, as an unread teacher."""
    trained = [script.flowing.questions.parameters_of(each) for each in backward.optimizer]
    are_seen = partial(_are_seen, script.flowing.questions.analysis.pytorch.called)
    return are_seen(backward.leaves) or (bool(trained) and all(each and are_seen(each) for each in trained))


def _are_seen(called: Mapping[Site, str], leaves: Collection[Atom]) -> bool:
    """Whether all leaves are parameters of modules that the program makes, or a package that opens no regions.

    Args:
        called: what is called at each place, by its full name.
    """
    owners = [each.owner if isinstance(each, Part) else None for each in leaves]
    makers = (called.get(each.made_at, "") if isinstance(each, Opaque) and each.made_at else "" for each in owners)
    return all(
        isinstance(owner, Obj) or maker.startswith(OPENING_NO_REGIONS)
        for owner, maker in zip(owners, makers, strict=True)
    )


def _is_used(script: Script, word: str) -> bool:
    """Whether code that runs with the script uses something of that name, or of a package. Texts may speak of it.

    What it does not import, and what does not import it, is another script's.
    """
    library, own = script.roles.project.library, script.file
    for file in library.mentioning(word):
        if word == "autocast" and only_switches_off(file):
            continue
        is_meant = word in file.uses or (word in _PACKAGES and any(word in name for name in file.imported))
        if is_meant and (file is own or library.brings(own, file, _IMPORTS) or library.brings(file, own, _IMPORTS)):
            return True
    return False
