"""What becomes of every use of an old name in one file, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from amp_migrate.analysis.files import File
from amp_migrate.analysis.project import Project
from amp_migrate.catalog.name_rules import CUDA_AUTOCAST_CODE
from amp_migrate.frozen import frozen
from amp_migrate.renames.change.moved_imports import deprecated_items, is_wanted
from amp_migrate.renames.change.one_use import Rewrite, rewrite_of
from amp_migrate.renames.find.surroundings import is_provided_for
from amp_migrate.renames.find.uses import Use, find_uses
from amp_migrate.renames.find.version_guards import VersionFold, folds
from amp_migrate.renames.rename import Unsure, UsePlace
from amp_migrate.settings import Dtype
from amp_migrate.steps.dtype.remove_scalers import UNTOUCHED, Fates
from amp_migrate.trees.nodes import walk
from amp_migrate.wishes import Wishes
from amp_migrate.write.editor import Editor

_AMBIGUOUS = Unsure(
    "the name stands for different things on different ways to this line",
    "import it from torch.amp on every way, and give autocast its device_type",
)
_SHADOWED = Unsure("`torch` is the name of something else here", "give it another name, so that torch can be imported")
_PROVIDED_FOR = Unsure(
    "the code around it chooses between the old PyTorch and the new",
    "drop the old branch when no old PyTorch has to be served",
)


@frozen
class Decided:
    """What becomes of the uses of old names in one file.

    Attributes:
        folded: the choices between PyTorch versions that go, each with the rule about what goes with it.
        removed: the nodes that go away, with them or for another reason.
        sure: the uses that mean one old name, and that somebody wants to be rewritten.
        doubtful: those that may also mean something else.
        rewrites: what is written for a use.
        refused: why a use stays.
    """

    folded: tuple[tuple[VersionFold, str], ...]
    removed: frozenset[cst.CSTNode]
    sure: tuple[Use, ...]
    doubtful: tuple[Use, ...]
    rewrites: dict[cst.CSTNode, Rewrite]
    refused: dict[cst.CSTNode, Unsure]


@frozen
class Renaming:
    """What holds for all files when their old names are decided about.

    Attributes:
        dtype: what the code computes in afterwards.
        fates: what becomes of the scalers for the sake of another dtype.
    """

    project: Project
    wishes: Wishes
    dtype: Dtype
    fates: Fates = UNTOUCHED

    def editor(self, file: File, rule: str) -> Editor:
        """Makes the edits of a file for a rule."""
        return Editor(file, self.wishes.settings, rule)


def decide(renaming: Renaming, file: File, handed_on: frozenset[str], stuck: Mapping[cst.CSTNode, Unsure]) -> Decided:
    """Decide about the uses of old names in a file.

    Args:
        handed_on: the module-level names that other files take from this one, and whose uses there move with it.
        stuck: uses that stay whatever is found out here.
    """
    fates, wants = renaming.fates, renaming.wishes.wants
    sure, doubtful = find_uses(file)
    folded = _folds(file, [*sure, *doubtful], renaming.wishes)
    removed = fates.removed | {node for fold, _ in folded for part in fold.gone for node in walk(part)}
    sure = [use for use in sure if use.node not in removed and wants(file.tree, use.node, use.rule.code)]
    doubtful = [use for use in doubtful if use.node not in removed and wants(file.tree, use.node, use.rule.code)]
    refused: dict[cst.CSTNode, Unsure] = {use.node: _AMBIGUOUS for use in doubtful}
    rewrites: dict[cst.CSTNode, Rewrite] = {}
    for use in sure:
        if use.node in stuck:
            refused[use.node] = stuck[use.node]
            continue
        if file.spelling.is_shadowed("torch", use.node):
            refused[use.node] = _SHADOWED
            continue
        if is_provided_for(file, use.node, use.rename):
            refused[use.node] = _PROVIDED_FOR
            continue
        parent = file.tree.parents[use.node]
        editor = renaming.editor(file, use.rule.code)
        context = UsePlace(editor, use.node, Dtype.FP16 if parent in fates.kept else renaming.dtype)
        rewrite = rewrite_of(context, renaming.project, use, handed_on, disabled=parent in fates.disabled)
        if isinstance(rewrite, Unsure):
            refused[use.node] = rewrite
        else:
            rewrites[use.node] = rewrite
    return Decided(tuple(folded), removed, tuple(sure), tuple(doubtful), rewrites, refused)


def _folds(file: File, uses: list[Use], wishes: Wishes) -> list[tuple[VersionFold, str]]:
    """The choices to fold, none of which holds an old name that is to stay, each with the rule about one of them."""
    rules: dict[cst.CSTNode, str] = {use.node: use.rule.code for use in uses}
    old: set[cst.CSTNode] = {use.node for use in uses}
    untouchable: set[cst.CSTNode] = {use.node for use in uses if not wishes.wants(file.tree, use.node, use.rule.code)}
    for statement, alias, full, _ in deprecated_items(file):
        old.add(statement)
        if not is_wanted(file, alias, full, wishes):
            untouchable.add(statement)
    found: list[tuple[VersionFold, str]] = []
    for fold in folds(file, old, untouchable) if old else ():
        inside = (rules[node] for part in fold.gone for node in walk(part) if node in rules)
        rule = next(inside, CUDA_AUTOCAST_CODE)
        if wishes.wants(file.tree, fold.choice, rule):
            found.append((fold, rule))
    return found
