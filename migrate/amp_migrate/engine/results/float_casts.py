"""What the analysis of values asks for in float32 in a result, made in the plan that the result comes from."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import count, islice, takewhile
from pathlib import Path
from typing import cast

import libcst as cst

from amp_migrate.analysis.bindings import dotted
from amp_migrate.analysis.names.result_names import result_name
from amp_migrate.catalog.step_rules import RISKY_NUMERICS
from amp_migrate.engine.outcome import FilePlan
from amp_migrate.engine.parsed_files import ParsedLibrary
from amp_migrate.engine.results.float32_sigmoids import in_float32
from amp_migrate.engine.workspace import Workspace
from amp_migrate.flow.casts import FloatCast, Island
from amp_migrate.flow.source import Site, site_of
from amp_migrate.frozen import frozen
from amp_migrate.moves import wishes_of
from amp_migrate.plan.code import Hole, code
from amp_migrate.plan.describe import described
from amp_migrate.plan.edit import After, Before, Cast, Edit, NewLine, Wrap
from amp_migrate.pragmas import read_pragmas
from amp_migrate.report.finding import Finding, Kind
from amp_migrate.settings import Settings
from amp_migrate.syntax import nodes_in
from amp_migrate.trees.counterparts import Counterparts
from amp_migrate.trees.nodes import Statement, find
from amp_migrate.write.conflicts import PlanConflict
from amp_migrate.write.consume import complete, new_text
from amp_migrate.write.editor import Editor, guarded

# Why a file changes about which there is nothing else to say.
_FOR_ANOTHER = "reads in float32 what a region of another file computes in half precision"
_LIKE_ANOTHER = "takes the precision of what a region of another file computes"


@frozen
class InFloat32:
    """What is to be float32 in the result of one file.

    Attributes:
        casts: the expressions, each with the code of the rule that asks for it.
        islands: the statements, each with the message that says why, and whether that is of other code.
        steps: the files with the steps for whose regions it is: without them nothing is low.
    """

    casts: dict[FloatCast, str] = field(default_factory=dict)
    islands: dict[Island, tuple[str, bool]] = field(default_factory=dict)
    steps: set[Path] = field(default_factory=set)


def with_casts(
    workspace: Workspace,
    plans: Sequence[FilePlan],
    wanted: Mapping[str, InFloat32],
    settings: Settings,
    library: ParsedLibrary,
) -> tuple[FilePlan, ...]:
    """The plans that change by what is to be float32 in their results, if that is wanted and not there yet.

    Args:
        wanted: by file. One that had no plan gets one.
        library: the files of the workspace.
    """
    known = {each.source.name: each for each in plans}
    found = []
    for name, each in sorted(wanted.items()):
        plan = known.get(name)
        if plan is None and (source := workspace.file(Path(name))) is not None:
            plan = FilePlan(source, source.text, ())
        new = plan and _with_casts(plan, each, settings, library)
        if new is not None and new is not plan:
            found.append(new)
    return tuple(found)


def _with_casts(plan: FilePlan, wanted: InFloat32, settings: Settings, library: ParsedLibrary) -> FilePlan:
    if read_pragmas(plan.source.text).skips_file:
        return plan
    file = library.file_of(plan.source)
    if file is None or file.tree.refused:
        return plan
    nodes = _Originals(plan)
    pairs = Counterparts(file.tree, nodes.before)
    wishes = wishes_of(settings)
    new: list[Edit] = []
    for each, rule in sorted(wanted.casts.items()):
        edits = _in_float32(each, Editor(file, settings, rule), nodes, pairs)
        if wishes.unwanted(edits) is None:
            new += edits
    editor = Editor(file, settings, RISKY_NUMERICS.code)
    apart: dict[Statement, tuple[str, bool]] = {}
    told_of: dict[cst.CSTNode, tuple[str, bool]] = {}
    named: list[Edit] = []
    of_islands: list[tuple[Statement, Edit]] = []
    begun = {each.node for each in plan.planned if isinstance(each.change, Wrap)}
    already = {each.node for each in plan.planned if isinstance(each.change, Cast)}
    off = _off(plan.planned, editor)
    taken: defaultdict[Statement, list[str]] = defaultdict(list)
    heads: defaultdict[cst.CSTNode, list[NewLine]] = defaultdict(list)
    # What goes before a statement does so in the order in which it was computed.
    for island, why in sorted(wanted.islands.items(), key=lambda each: (each[0].alone or each[0].value, each)):
        value = nodes.value(island.value)
        own = None if value is None else pairs.of(value)
        before = [_counterpart(each, nodes, pairs) for each in island.before]
        casts = [_cast(each, editor, nodes, pairs) for each in island.casts]
        alone = None if island.alone is None else _counterpart(island.alone, nodes, pairs)
        if own is not None and None not in (*before, *casts) and (alone is None) is (island.alone is None):
            statement = file.tree.statement(own)
            if statement in off:
                continue
            made = [each for each in casts if each is not None]
            names = _names(statement, [*before, alone], taken[statement], editor)
            taken[statement] += names
            lines = [*_named_before(statement, names, before, already.union(each.node for each in made), editor)]
            if isinstance(alone, cst.Call):
                lines += _computed_before(statement, alone, names[-1], editor)
                if wishes.unwanted([*made, *lines]) is None:
                    for line in lines:  # those before the first statement of a region are to stand in it
                        if statement in begun and isinstance(line.change, Before):
                            heads[statement] += line.change.lines
                        else:
                            named.append(line)
                    new += made
                    told_of[alone] = why
                continue
            wrap = editor.wrap(statement, statement, editor.no_autocast(statement))
            # A line before the first of a region would stand outside of it.
            if not (lines and statement in begun) and wishes.unwanted([*made, *lines, wrap]) is None:
                named += lines
                of_islands += ((statement, each) for each in made)
                apart[statement] = why
    new += (each for statement, each in of_islands if not _is_computed_apart(each.node, statement, apart, editor))
    planned, behind = _begun_behind([_begun_with(each, heads[each.node]) for each in plan.planned], apart)
    new += (editor.wrap(each, each, editor.no_autocast(each)) for each in apart if each not in behind)
    gone = {each.node for each in named}
    others = (each for each in (*planned, *new) if not (isinstance(each.change, Cast) and each.node in gone))
    try:
        edits = complete(file.tree, _joined([*named, *others], editor))
    except PlanConflict:  # the region that it begins has more in it than its statements
        return plan
    if edits == plan.planned:
        return plan
    words = map(described, sorted(edits, key=lambda each: each.line)) if settings.explain else ()
    told = (
        Finding.at(file.tree, each, RISKY_NUMERICS.code, Kind.NOTE, f"kept in float32: {why}", is_of_others=of_others)
        for each, (why, of_others) in (*apart.items(), *told_of.items())
    )
    findings = {*plan.findings, *told}
    if not findings:  # nothing else says why this file changes
        places = {bool(each.like): _counterpart(each.site, nodes, pairs) for each in sorted(wanted.casts, reverse=True)}
        for is_like, place in (places or {False: None}).items():
            said, at = _LIKE_ANOTHER if is_like else _FOR_ANOTHER, place or file.tree.module
            findings.add(Finding.at(file.tree, at, RISKY_NUMERICS.code, Kind.NOTE, said, is_of_others=True))
    after = new_text(file.tree, edits)
    beside = tuple(sorted({*plan.beside, plan.source.path, *wanted.steps}))
    told_all = tuple(sorted(findings))
    return replace(plan, after=after, planned=edits, edits=tuple(words), findings=told_all, beside=beside)


def _names(
    statement: Statement, calls: Iterable[cst.BaseExpression | None], taken: Collection[str], editor: Editor
) -> list[str]:
    """A name for what each of some calls in a statement gives, but for those that others have."""
    found: list[str] = []
    for call in calls:
        if isinstance(call, cst.Call):
            candidates = (result_name(editor.file, statement, call, index) for index in count())
            found.append(next(each for each in candidates if each not in (*taken, *found)))
    return found


def _named_before(
    statement: Statement,
    names: Iterable[str],
    calls: Iterable[cst.BaseExpression | None],
    low: Collection[cst.CSTNode],
    editor: Editor,
) -> Iterator[Edit]:
    """What puts calls in a statement before it, under names that it reads, in float32 where they give what is low."""
    for name, call in zip(names, calls, strict=False):
        assert call is not None
        yield editor.before(statement, code("{} = {}", name, Hole(call, bare=True, moved=True)))
        yield editor.edit(call, Cast(code("{}.float()" if call in low else "{}", name)))


def _is_computed_apart(node: cst.CSTNode, statement: Statement, apart: Collection[Statement], editor: Editor) -> bool:
    """Whether a name is what a statement right before gives it, which is to be computed in float32 as well."""
    block = editor.file.tree.siblings(statement)
    for each in takewhile(lambda one: one in apart, reversed(block[: block.index(statement)])):
        targets = [one.target for one in each.targets] if isinstance(each, cst.Assign) else []
        targets += [each.target] if isinstance(each, cst.AugAssign) else []
        if isinstance(node, cst.Name) and any(one.value == node.value for it in targets for one in find(it, cst.Name)):
            return isinstance(each, cst.Assign) and [dotted(one) for one in targets] == [node.value]
    return False


def _computed_before(statement: Statement, call: cst.Call, name: str, editor: Editor) -> Iterator[Edit]:
    """What computes a call before its statement, without autocast, under a name that the statement reads."""
    computed = code("{} = {}", name, Hole(call, bare=True, moved=True))
    yield editor.before(statement, guarded(code("with {}:", editor.no_autocast(statement)), computed))
    yield editor.replace(call, name)


def _off(planned: Iterable[Edit], editor: Editor) -> set[cst.CSTNode]:
    """The statements that stand in a region without autocast already."""
    return {statement for each in planned if _without_autocast(each, editor) for statement in each.changed}


def _begun_with(edit: Edit, lines: Sequence[NewLine]) -> Edit:
    """The edit with a region that lines before its first statement are to stand in."""
    if not lines or not isinstance(edit.change, Wrap):
        return edit
    return replace(edit, change=replace(edit.change, head=(*edit.change.head, *lines)))


def _begun_behind(planned: Iterable[Edit], apart: Collection[Statement]) -> tuple[list[Edit], set[Statement]]:
    """The edits with regions that begin behind what is to stand apart, and what they begin with no more.

    A region of nothing else is none, unless new lines end it.
    """
    edits: list[Edit] = []
    out: set[Statement] = set()
    for each in planned:
        if isinstance(each.change, Wrap) and each.node in apart:
            run = [cast(Statement, statement) for statement in each.changed]
            first = [*takewhile(lambda statement: statement in apart, run)]
            if len(first) < len(run):
                edits.append(replace(each, node=run[len(first)]))
            elif each.change.tail:
                edits.append(each)
                continue
            out.update(first)
        else:
            edits.append(each)
    return edits, out


def _joined(edits: Iterable[Edit], editor: Editor) -> Iterator[Edit]:
    """Edits with one region without autocast for those of which the next begins where the last has ended.

    Lines between the two are computed before the second as they would be without it.
    """
    known = [*edits]
    beside = {each.node for each in known if isinstance(each.change, (After, Before))}
    ends = {cast(Statement, each.node): change.last for each in known if (change := _without_autocast(each, editor))}
    for first in sorted(ends, key=lambda each: editor.file.tree.order[each], reverse=True):
        block = editor.file.tree.siblings(ends[first])
        behind = next(islice(block, block.index(ends[first]) + 1, None), None)
        if behind in ends and beside.isdisjoint((ends[first], behind)):
            ends[first] = ends.pop(behind)
    for each in known:
        change = _without_autocast(each, editor)
        if change is None:
            yield each
        elif each.node in ends:
            yield replace(each, change=replace(change, last=ends[cast(Statement, each.node)]))


def _without_autocast(edit: Edit, editor: Editor) -> Wrap | None:
    """The change that puts statements into a region without autocast; None for any other."""
    is_off = isinstance(edit.change, Wrap) and edit.change.context == editor.no_autocast(edit.node)
    return edit.change if is_off and isinstance(edit.change, Wrap) else None


def _in_float32(each: FloatCast, editor: Editor, nodes: _Originals, pairs: Counterparts) -> tuple[Edit, ...]:
    """The edits that make what an expression gives float32, or the module that it makes compute in it."""
    if each.is_module:
        made = _counterpart(each.site, nodes, pairs)
        return () if made is None else in_float32(made, editor)
    return tuple(filter(None, [_cast(each, editor, nodes, pairs)]))


def _cast(each: FloatCast, editor: Editor, nodes: _Originals, pairs: Counterparts) -> Edit | None:
    own = _counterpart(each.site, nodes, pairs)
    return None if own is None else editor.cast(own, like=each.like, is_floating=each.is_floating)


def _counterpart(site: Site, nodes: _Originals, pairs: Counterparts) -> cst.BaseExpression | None:
    node = nodes.of(site)
    own = None if node is None else pairs.of(node)
    return own if isinstance(own, cst.BaseExpression) else None


class _Originals:
    """Which expression of a file an expression of its result comes from.

    Attributes:
        before: the file as it was.
    """

    def __init__(self, plan: FilePlan) -> None:
        self._plan = plan
        self.before, self._after = parsed(plan.source.text), parsed(plan.after)

    def of(self, site: Site) -> ast.expr | None:
        """The expression with the same words, in the line that the result's line comes from; None for a new one."""
        wanted = next((each for each in _expressions(self._after) if site_of(site.file, each) == site), None)
        if wanted is None:
            return None
        line = line_before(self._plan, wanted.lineno)
        there, here = _same(self._after, wanted.lineno, wanted), _same(self.before, line, wanted)
        if len(here) != len(there):  # of statements that stood in one line each has its own now
            own = [each for each in _simple(self._after, wanted.lineno) if wanted in nodes_in(each)]
            words = {ast.dump(_without_casts(each)) for each in own}
            its = [each for each in _simple(self.before, line) if ast.dump(_without_casts(each)) in words]
            if len(own) != 1 or len(its) != 1:
                return None
            there, here = _same(own[0], wanted.lineno, wanted), _same(its[0], line, wanted)
        return here[there.index(wanted)] if len(here) == len(there) else None

    def value(self, site: Site) -> ast.expr | None:
        """The value of the statement that a statement's value comes from, which casts may have changed since."""
        wanted = next((each for each in _values(self._after) if site_of(site.file, each) == site), None)
        if wanted is None:
            return None
        words, line = ast.dump(_without_casts(wanted)), line_before(self._plan, wanted.lineno)
        here = [
            each for each in _values(self.before) if each.lineno == line and ast.dump(_without_casts(each)) == words
        ]
        return here[0] if len(here) == 1 else None


def _values(tree: ast.Module) -> Iterator[ast.expr]:
    """The values of statements."""
    found = (getattr(each, "value", None) for each in nodes_in(tree) if isinstance(each, ast.stmt))
    return (each for each in found if isinstance(each, ast.expr))


def _without_casts(node: ast.AST) -> ast.AST:
    found: ast.AST = _WithoutCasts().visit(deepcopy(node))
    return found


class _WithoutCasts(ast.NodeTransformer):
    """Takes `.float()` away."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        is_cast = isinstance(node.func, ast.Attribute) and node.func.attr == "float" and not node.args
        return node.func.value if is_cast and isinstance(node.func, ast.Attribute) else node


def _simple(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The statements of a line that have no others in them."""
    return [
        each
        for each in nodes_in(tree)
        if isinstance(each, ast.stmt) and not hasattr(each, "body") and each.lineno <= line <= (each.end_lineno or 0)
    ]


def _same(tree: ast.AST, line: int, like: ast.expr) -> list[ast.expr]:
    """The expressions that begin in a line and are like one, in source order."""
    words = ast.dump(like)
    found = (each for each in _expressions(tree) if each.lineno == line and ast.dump(each) == words)
    return sorted(found, key=lambda each: each.col_offset)


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    return (each for each in nodes_in(tree) if isinstance(each, ast.expr))


def parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def line_before(plan: FilePlan, line: int) -> int:
    """The line of a file as it was that a line of the result comes from; the one before it where it is new."""
    old, new = _lines(plan.source.text), _lines(plan.after)
    for what, first, last, begin, end in _opcodes(plan.source.text, plan.after):
        if begin < line <= end:
            if what == "equal":
                return first + line - begin
            like = [SequenceMatcher(None, each, new[line - 1]).ratio() for each in old[first:last]]
            return first + 1 + like.index(max(like)) if like else max(first, 1)
    return len(old)


def line_after(plan: FilePlan, line: int) -> int:
    """The line of the result that comes from a line of the file, and is most like it."""
    text, new = _lines(plan.source.text)[line - 1], _lines(plan.after)
    come = (number for number in range(1, len(new) + 1) if line_before(plan, number) == line)
    return max(come, key=lambda number: SequenceMatcher(None, text, new[number - 1]).ratio(), default=line)


@lru_cache(maxsize=8)
def _opcodes(old: str, new: str) -> Sequence[tuple[str, int, int, int, int]]:
    """What became of the lines of a text, in which there may be many harms."""
    return SequenceMatcher(None, _lines(old), _lines(new), autojunk=False).get_opcodes()


def _lines(text: str) -> list[str]:
    """The lines of a text, however deep they stand."""
    return [each.strip() for each in text.splitlines()]
