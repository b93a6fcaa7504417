"""Which files belong to one Apex script: `initialize` in one, `scale_loss` in another, `state_dict` in a third."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain

import libcst as cst

from amp_migrate.analysis.exports import is_exported, taken
from amp_migrate.analysis.files import File
from amp_migrate.analysis.imported import imported_files, loaded_by
from amp_migrate.analysis.project import FunctionRef, Project
from amp_migrate.frozen import frozen
from amp_migrate.plan.move import Refusal
from amp_migrate.steps.apex.initialize.initialize_calls import Initialize
from amp_migrate.steps.apex.step.apex_steps import ApexStep
from amp_migrate.steps.apex.step.fp16_optimizer import wrapped_receivers
from amp_migrate.steps.apex.step.split_steps import ApexSplit
from amp_migrate.steps.apex.uses.apex_calls import amp_calls, amp_uses, apex_uses, is_in, takes_amp, wrapper_calls
from amp_migrate.steps.apex.uses.apex_guards import insists
from amp_migrate.steps.apex.uses.cast_functions import cast_uses
from amp_migrate.steps.statements.amp_signs import names_amp
from amp_migrate.steps.statements.bodies import backward_calls, bodies
from amp_migrate.tables.apex_names import AMP, INITIALIZE, SHIM
from amp_migrate.trees.nodes import is_constant
from amp_migrate.trees.own_calls import named_arguments

_OF_STEPS = re.compile(r"\b(?:amp|apex|backward|FP16_Optimizer|loss_scale|master_params|zero_grad)\b")
# What says nothing without the script that initializes.
_OF_SCRIPTS = ("scale_loss", "state_dict", "load_state_dict", "master_params")
_BACKWARD = re.compile(r"\.\s*backward\s*\(")


@frozen
class ApexScript:
    """What the files of one script say that use `apex.amp`.

    Attributes:
        initializes: what is prepared for Apex.
        led: the initializations that are on wherever another one is, and say nothing of mixed precision by themselves.
        steps: those that stand in one function each.
        splits: those that are spread over several.
        refusals: what stands in the way of native AMP.
        evaluated: the functions of other files that evaluate for it, and for nobody else.
        by_others: what is called, or handed on, that evaluates for others as well, or that nobody can tell apart; with
            the function that is called, where it may have its region round the call.
        has_round_calls: whether what evaluates may have its region round the calls of it.
        is_unscaled: whether no loss of it is scaled, and its steps are plain ones that Apex casts for.
        keeps_keys: whether another script, with the shim's state, reads its checkpoints by the keys that they have.
    """

    files: tuple[File, ...]
    initializes: tuple[Initialize, ...]
    steps: tuple[ApexStep, ...]
    splits: tuple[ApexSplit, ...]
    refusals: tuple[Refusal, ...]
    evaluated: Mapping[File, Collection[cst.FunctionDef]] = field(default_factory=dict)
    by_others: tuple[tuple[File, cst.BaseExpression, FunctionRef | None], ...] = ()
    has_round_calls: bool = True
    led: tuple[Initialize, ...] = ()
    keeps_keys: bool = False
    is_unscaled: bool = False

    @property
    def shared(self) -> tuple[FunctionRef, ...]:
        """The functions that are called, and evaluate for others as well."""
        return tuple(function for _, _, function in self.by_others if function is not None)

    @property
    def all_steps(self) -> tuple[ApexStep, ...]:
        """The steps, and the parts of those that are spread."""
        return (*self.steps, *(part for split in self.splits for part in split.steps))


def handed_wrappers(project: Project, files: Sequence[File]) -> dict[File, File]:
    """The files that go backward by an optimizer, and do not know of Apex, each with one that may wrap it for them."""
    wrapping = [file for file in files if wrapper_calls(file) and not any(wrapped_receivers(file))]
    found: dict[File, File] = {}
    for other in files if wrapping else ():
        if any(wrapped_receivers(other)) and not asks_apex(other):
            near = (
                each
                for each in wrapping
                if other in imported_files(project, each) or each in imported_files(project, other)
            )
            beside = (each for each in wrapping if project.library.may_run_together(each, other))
            wraps = next(chain(near, beside), None)
            if wraps is not None:
                found[other] = wraps
    return found


def scripts_of(project: Project, files: Sequence[File], handed: Mapping[File, File]) -> list[tuple[File, ...]]:
    """The files of each script: one that initializes Apex, its helpers beside or below it, and what these import.

    Two files that both initialize are two scripts, unless one imports the other. A file that imports Apex for nothing
    is a script of its own, as it would be without that import; so is one that only says what functions compute in, and
    goes the way of all that load it.

    Args:
        handed: files that are given the optimizers which others wrap.
    """
    script_of = {file: [file] for file in files}
    files = [file for file in files if not (is_idle(project, [file]) or _only_casts(project, file))]
    using, starting = frozenset(files), [file for file in files if starts(file)]
    related = {
        file: [each for each in imported_files(project, file) if each in using and _takes_step(project, file, each)]
        for file in files
    }
    loaded: dict[File, frozenset[File]] = {}
    for other in files if len(starting) < len(files) else ():
        for file in _helped(project, starting, other, loaded) if other not in starting else ():
            related[file].append(other)
    for file in files:
        for other in related[file]:
            if script_of[other] is not script_of[file]:
                mine, theirs = script_of[file], script_of[other]
                mine.extend(theirs)
                for moved in theirs:
                    script_of[moved] = mine
    for file, wraps in handed.items():
        if wraps in script_of:
            script_of[wraps].append(file)
    return list(dict.fromkeys(map(tuple, script_of.values())))


def _takes_step(project: Project, file: File, other: File) -> bool:
    """Whether a file may take something from another that has to do with its steps, and not only a learning rate."""
    names = taken(project, file, other)
    return names is None or not names.isdisjoint(_of_steps(other))


def _of_steps(file: File) -> set[str]:
    """The names of a file whose definitions say anything of Apex or of training, or use one that does."""
    tree, module = file.tree, file.scopes.module
    defined = {
        name: {tree.lift(each.node, tree.module) for each in bindings}
        for name, bindings in module.bindings.items()
        if "." not in name
    }
    users = {
        name: {tree.lift(each, tree.module) for each in file.uses.get(name, ()) if _is_of_module(file, each)}
        for name in defined
    }
    found = {name for name, nodes in defined.items() if any(_OF_STEPS.search(tree.code(each)) for each in nodes)}
    todo = [*found]
    while todo:
        using = users[todo.pop()]
        new = {name for name, nodes in defined.items() if name not in found and not using.isdisjoint(nodes)}
        found |= new
        todo += new
    return found


def _is_of_module(file: File, use: cst.Name | cst.Attribute) -> bool:
    """Whether a use is of a name of the module: none of an attribute, nor of a local variable, which is called so."""
    return isinstance(use, cst.Name) and file.scopes.of(use).find(use.value) is file.scopes.module


def _helped(project: Project, starting: Sequence[File], other: File, loaded: dict[File, frozenset[File]]) -> list[File]:
    """The scripts that a file may be a helper of: those that leave their steps to others, if there are any.

    It is no helper of a script that trains by other files where it belongs to one that loads it.

    Args:
        loaded: what scripts load, as far as it has been looked for.
    """

    def loads(file: File) -> bool:
        if file not in loaded:
            loaded[file] = loaded_by(project, [file])
        return other in loaded[file]

    is_apart = any(True for name in _OF_SCRIPTS for _ in amp_calls(other, name))
    found = [file for file in starting if _may_help(project, file, other) or (is_apart and loads(file))]
    if is_apart and not found:  # two halves of a library, which its users put together
        found = [file for file in starting if project.library.may_run_together(file, other)]
    if len(found) > 1 and any(map(loads, found)):
        found = [file for file in found if loads(file) or not any(map(_goes_backward, loaded[file]))]
    return [file for file in found if not any(True for _ in amp_calls(file, "scale_loss"))] or found


def programs_with(project: Project, files: Iterable[File], script: Collection[File]) -> list[frozenset[File]]:
    """What each of some files loads, with itself, where a file of a script is in that, and anything trains."""
    loaded = [loaded_by(project, [file]) for file in files if file not in script]
    return [
        each for each in loaded if not each.isdisjoint(script) and any(starts(f) or _goes_backward(f) for f in each)
    ]


def _goes_backward(file: File) -> bool:
    return _BACKWARD.search(file.tree.text) is not None


def _may_help(project: Project, file: File, other: File) -> bool:
    """Whether a script may have a helper beside or below it that it does not import itself."""
    folder = file.name.rpartition("/")[0]
    is_below = other.name.startswith(f"{folder}/" if folder else "")
    return is_below and project.library.may_run_together(file, other)


def is_idle(project: Project, files: Iterable[File]) -> bool:
    """Whether nothing of `apex.amp` is used in the files of a script, nor by another file that takes it from them."""
    return not any(wrapper_calls(file) or any(True for _ in _uses(file)) or _hands_on(project, file) for file in files)


def _only_casts(project: Project, file: File) -> bool:
    """Whether a file only says what functions compute in, by `float_function` or `disable_casts`."""
    casts = {*cast_uses(file)}
    return bool(casts) and not wrapper_calls(file) and casts.issuperset(_uses(file)) and not _hands_on(project, file)


def _uses(file: File) -> Iterator[cst.Name | cst.Attribute]:
    for node in amp_uses(file):
        if not (file.tree.is_target(node) or insists(file, file.tree.statement(node))):
            yield node


def _hands_on(project: Project, file: File) -> bool:
    return any(
        is_exported(project, file, name)
        for name, bindings in file.scopes.module.bindings.items()
        if any(is_in(each.imported, (AMP,)) or each.imported == "apex" for each in bindings)
    )


def idle_files(project: Project, files: Iterable[File]) -> frozenset[File]:
    """The files that import `apex.amp` for nothing, as do all of their script: they compute in float32."""
    scripts = scripts_of(project, [file for file in files if asks_apex(file)], {})
    return frozenset(file for script in scripts if is_idle(project, script) for file in script)


def never_scaled(
    project: Project, files: Iterable[File], handed: Mapping[File, File]
) -> Iterator[tuple[File, cst.Call]]:
    """The files that prepare optimizers for Apex whose script scales no loss, each with the call that does.

    What is on the shim already stays there, whatever its steps are.
    """
    files = tuple(files)
    for file in files if any(True for _ in project.library.mentioning(SHIM)) else ():
        shimmed = (each for each in file.calls if file.names.callee(each) == f"{SHIM}.amp.initialize")
        yield from ((file, each) for each in shimmed if _prepares_optimizer(each))
    for script in scripts_of(project, [file for file in files if asks_apex(file)], handed):
        if not any(wrapper_calls(file) or any(True for _ in amp_calls(file, "scale_loss")) for file in script):
            calls = ((file, call) for file in script for call in amp_calls(file, "initialize"))
            yield from ((file, call) for file, call in calls if _prepares_optimizer(call))


def _prepares_optimizer(call: cst.Call) -> bool:
    arguments = named_arguments(call, INITIALIZE)
    optimizers = None if arguments is None else arguments.get("optimizers")
    return arguments is None or not (optimizers is None or is_constant(optimizers, "None"))


def starts(file: File) -> bool:
    """Whether a file prepares models and optimizers for Apex."""
    return bool(wrapper_calls(file)) or any(True for _ in amp_calls(file, "initialize"))


def uses_apex_amp(file: File) -> bool:
    """Whether a file decides about precision through `apex.amp`, which the shim may answer for by now."""
    return asks_apex(file) or any(
        is_in(name, (f"{SHIM}.amp",)) for name in (*file.imported, *file.names.given.values())
    )


def asks_apex(file: File) -> bool:
    """Whether a file imports `apex.amp`, from whichever file, reaches it by `import apex`, or makes a wrapper."""
    names = file.imported
    if any(is_in(name, (AMP,)) for name in (*names, *file.names.given.values())):
        return True
    if takes_amp(file):
        return True
    return bool(wrapper_calls(file)) or ("apex" in names and any(True for _ in apex_uses(file, AMP)))


def trains(file: File) -> bool:
    """Whether a file has training or AMP of its own, whose regions those of evaluation would be."""
    return (
        asks_apex(file)
        or names_amp(file, file.tree.module)
        or any(True for _, body in bodies(file) for _ in backward_calls(body))
    )
