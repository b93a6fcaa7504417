"""Where a cast to float32 keeps a low value from what it must not meet: asked of an analysis about what happens in it.

A value is cast as late as it has a name for what leaves the region: where it is used, or where a function is called
that uses its parameter, so that all of that function computes as it did.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from amp_migrate.flow.analysis import Analysis
from amp_migrate.flow.answers.reaching import reaching
from amp_migrate.flow.answers.sigmoid_modules import SigmoidModules
from amp_migrate.flow.domain.atoms import (
    NEVER,
    Atom,
    Class,
    Const,
    Dtype,
    External,
    Obj,
    Opaque,
    Part,
    Tup,
    Value,
    by_path,
    one,
    tensor_of,
    tensors_in,
)
from amp_migrate.flow.domain.contexts import OFF, ON
from amp_migrate.flow.domain.tensor import (
    BOOL,
    COMPLEX,
    F32,
    F64,
    INT,
    LOW,
    NORMALIZED,
    OF_INVERSE,
    OTHER,
    ROUGH,
    Tensor,
)
from amp_migrate.flow.events import (
    A_COARSE_DRAW,
    A_LONG_SUM,
    A_ROUGH_INVERSE,
    A_ROUNDED_PROBABILITY,
    A_RUNNING_BUFFER,
    BESIDE_AN_INVERSE,
    LIKE_A_RESULT,
    ONE_BY_ONE,
    Act,
    Event,
)
from amp_migrate.flow.python import containers
from amp_migrate.flow.pytorch.functions import operator_name
from amp_migrate.flow.pytorch.gradients import overlap
from amp_migrate.flow.pytorch.modules import SOME_LAYER, takes
from amp_migrate.flow.pytorch.unread import is_known, owners_of
from amp_migrate.flow.source import FUNCTIONS, Code, Site, site_of
from amp_migrate.flow.task import Task, with_callers
from amp_migrate.frozen import frozen_in_order
from amp_migrate.syntax import nodes_in
from amp_migrate.tables import library_transforms
from amp_migrate.tables import operators as table
from amp_migrate.tables.signatures import argument

# The methods of containers that put something in.
_PUTTING_IN = frozenset("add append appendleft insert setdefault".split())
# What a tensor is looked at through, and stays in its precision.
_SAME = frozenset(("data", "T", "mT", "detach", "cpu", "cuda", "to"))
# What makes numbers of numbers, as of a size, and leaves tensors as they are.
# What these give is the same of a tensor in any precision.
_ASKING = frozenset(External(f"builtins.{name}") for name in ("id", "isinstance", "len", "type"))
_OF_NUMBERS = frozenset(f"builtins.{name}" for name in "abs int float len list tuple max min range".split()) | {"Size"}
_CHOOSING = (ast.IfExp, ast.BoolOp)
# What makes a tensor of the precision of another one.
_LIKE = frozenset("zeros_like new_zeros ones_like new_ones full_like new_full".split())
_RUNS_CODE = (ast.Lambda, ast.comprehension, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


@frozen_in_order
class FloatCast:
    """An expression that is to be float32.

    Attributes:
        site: where it stands.
        like: the expression whose precision it is to have instead; empty for none.
        is_floating: whether it is never anything but a floating tensor.
        is_module: whether it is a call that makes a sigmoid, which is to be one that computes in float32.
    """

    site: Site
    like: str = ""
    is_floating: bool = True
    is_module: bool = False


@frozen_in_order
class Island:
    """A statement that is to be computed in float32, where autocast is off.

    Attributes:
        value: an expression in it.
        casts: of what it gets from outside in low precision.
        before: calls in it that are computed before it, as they would be without it.
        alone: the call in it that is computed so by itself, before the rest: that has calls behind it which go on as
            they were; None for all of the statement.
    """

    value: Site
    casts: tuple[FloatCast, ...] = ()
    before: tuple[Site, ...] = ()
    alone: Site | None = None


class Logits(NamedTuple):
    """What a sigmoid is given, and where that stands."""

    node: ast.expr
    site: Site


class Casts:
    """Answers where to cast, in an analysis that keeps the values of all its files."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def against(self, event: Event) -> tuple[FloatCast, ...]:
        """The casts that keep an event from happening; none where it takes something else, or nobody can tell."""
        if event.act is Act.HALF_ARRAY:  # an array has no `float()`: what it is made of has
            made = (each for each in self._made_into_arrays if each.site in event.sources)
            return tuple(dict.fromkeys(cast for each in made for cast in self.against(each)))
        if event.why == A_ROUNDED_PROBABILITY:
            return () if event.tensor is None else self._before_rounding(event.tensor)
        if event.tensor is None or not event.tensor.regions:
            return ()
        if event.why == ONE_BY_ONE:
            return tuple(self._begun_like(event))
        if event.act is Act.SAVED:
            given = self._of_low(event.node, event.code, event)
            return tuple(dict.fromkeys((*given, *self._put_in_containers(event))))
        if event.why == A_COARSE_DRAW:
            return tuple(dict.fromkeys(self._drawn_by(event)))
        if event.why == LIKE_A_RESULT:
            return tuple(self._likened(event))
        if event.act is Act.LOW_LEAF:
            owners = (leaf.owner for leaf in event.leaves if isinstance(leaf, Part) and isinstance(leaf.owner, Obj))
            making = [self._calls.get(owner.site) for owner in owners]
            if not all(each is not None and _makes_another(each) for each in making):
                return ()
            return tuple(cast for call in making if call for cast in self._of_low(call, self._codes[call], event))
        if event.act is Act.INDEX_STORE:
            return tuple(self._stored(event))
        if event.act is Act.OVERFLOW:
            return tuple(self._filled(event))
        changes = self._changes_more_precise(event)
        if event.act is Act.MISMATCH and not (self._is_left(event) or _is_kernel(event) or changes):
            return ()
        is_mixed = not is_known(event.why) and self._has_float32_beside(event.node)
        is_cast = is_mixed or _is_outside(event) or _is_kernel(event) or isinstance(event.node, ast.Return)
        if event.act is Act.FOREIGN and not is_cast:
            return ()
        found = tuple(self._of_low(event.node, event.code, event))
        if not found and event.act is Act.MISMATCH and changes and not self._is_left(event):
            return tuple(self._like_what_changes(event))
        return found

    def is_low_on_a_way(self, event: Event) -> bool:
        """Whether what an event is about is low for certain on one of the ways that it is made."""
        if event.tensor is None or not event.tensor.may_be_low:
            return False
        made = (self._computing[site][0] for site in self._making(event.tensor))
        return any(self._is_low(each) and self._is_always_low(each) for each in made)

    def _has_float32_beside(self, call: ast.AST) -> bool:
        """Whether a call is given something that is float32 for certain: what is beside that was of its precision."""
        tensors = (tensor_of(self._value(each)) for each in self._operands(call))
        return any(each is not None and each.precision == F32 for each in tensors)

    def _of_low(self, node: ast.AST, code: Code, event: Event) -> Iterator[FloatCast]:
        """The casts of the operands of a node that are low as what an event is about."""
        assert event.tensor is not None
        operands = [each for each in self._operands(node) if self._is_from(each, event.tensor)]
        if not operands:  # what other calls of the function give is no tensor: these give one that has a name there
            operands = [each for each in self._operands(node) if self._given_low(each, code, event)]
        if event.why == A_LONG_SUM:  # the sum is float32 as soon as what is added is, and may be None at first
            statement = self._statements.get(node)
            sums = {ast.unparse(each) for each in statement.targets} if isinstance(statement, ast.Assign) else set()
            operands = [each for each in operands if ast.unparse(each) not in sums]
        casts = (self._outward(each, code, event) for each in operands if not _follows(each, operands))
        yield from dict.fromkeys(cast for of_one in casts for cast in of_one)

    def _drawn_by(self, event: Event) -> Iterator[FloatCast]:
        """The casts of what noise is drawn by, where the distribution is made that draws, or the function gets it."""
        drawing: list[ast.AST | None] = [self._calls.get(each.site) for each in event.subject if isinstance(each, Obj)]
        for call in drawing or [event.node]:
            if isinstance(call, ast.Call):
                yield from self._of_low(call, self._codes[call], event)

    def _put_in_containers(self, event: Event) -> Iterator[FloatCast]:
        """The casts of what is low where it is put into the lists and dictionaries that an event is about."""
        assert event.tensor is not None
        modules = filter(None, self._analysis.modules.values())
        for node, code in (each for module in modules for each in module.nodes()):
            holder, parts = _putting_in(node)
            if holder is not None and not event.subject.isdisjoint(self._value(holder)):
                for part in (each for each in parts if self._is_from(each, event.tensor)):
                    yield from self._outward(part, code, event)

    def _filled(self, event: Event) -> Iterator[FloatCast]:
        """What a number goes into, where that stands: another caller brings another number."""
        if _is_in_place(event.node):  # who else has it is to see what it becomes
            return
        for each in self._operands(event.node):
            tensor = tensor_of(self._value(each))
            # It is filled with a large number: what nobody knows of it is floating, too.
            if tensor is not None and self._is_low(each) and not tensor.precision & ~(LOW | F32 | OTHER):
                yield FloatCast(site_of(event.code.file, self._inward(each)))

    def _begun_like(self, event: Event) -> Iterator[FloatCast]:
        """What a sum by index in a variable is made like (`total = torch.zeros_like(x)`): so float32 is the sum."""
        total = next(self._operands(event.node), None)
        if total is not None and _is_in_place(event.node):
            yield from self._made_like(event, total)

    def _made_like(self, event: Event, buffer: ast.expr) -> Iterator[FloatCast]:
        """What a buffer is made like, by the one statement of the function that gives it its name."""
        inside = (each for top in event.code.body for each in nodes_in(top))
        bound = [each for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        made = [each for each in bound if isinstance(buffer, ast.Name) and each.id == buffer.id]
        call = self._assigned(made[0]) if len(made) == 1 else None
        if isinstance(call, ast.Call) and self._only_known_as(call) in _LIKE:
            like = next((each for each in self._operands(call) if tensor_of(self._value(each)) is not None), None)
            if like is not None and self._is_low(like) and not self._may_be_other(like) and _path(like):
                yield FloatCast(site_of(event.code.file, like))

    def _likened(self, event: Event) -> Iterator[FloatCast]:
        """What a module becomes like, where that stands: whoever brings it has it in half precision for the rest."""
        given = (
            each.value if isinstance(each, ast.Attribute) and each.attr == "dtype" else each
            for each in self._operands(event.node)
        )
        for each in given:
            tensor = tensor_of(self._value(each))
            if tensor is not None and self._is_low(each) and not tensor.precision & ~(LOW | F32):
                yield FloatCast(site_of(event.code.file, each))

    def _like_what_changes(self, event: Event) -> Iterator[FloatCast]:
        """The operands of what changes in place, in its precision: whatever they are, they have to agree with it."""
        changed, *operands = self._operands(event.node)
        is_tensor = any(isinstance(each, Tensor) for each in self._value(changed))  # and no module with kernels
        if not _path(changed) or not is_tensor or event.tensor is None:
            return
        for each in operands:
            found = tensor_of(self._value(each))
            if found is not None and found.may_be_low and found.regions & event.tensor.regions:
                yield FloatCast(site_of(event.code.file, each), ast.unparse(changed))

    @cached_property
    def _left_float(self) -> dict[ast.AST, Event]:
        """What happens, by its place, where autocast would have computed in float32."""
        return {each.node: each for each in self._analysis.events.values() if each.act is Act.LEFT_FLOAT}

    @cached_property
    def _made_into_arrays(self) -> list[Event]:
        return sorted(
            (each for each in self._analysis.events.values() if each.act is Act.TO_NUMPY), key=lambda each: each.site
        )

    def _before_rounding(self, probability: Tensor) -> tuple[FloatCast, ...]:
        """The casts of what the sigmoids get that give a probability: of what they give, a cast comes too late.

        What is low and gets such a probability as a part rounds it again: it is to be float32 from the start.
        """
        made = self._made_of(probability)
        found: dict[FloatCast, None] = {}
        buffers: frozenset[Site] = frozenset()
        for target, stored, code in self._stores:
            given, buffer = tensor_of(self._value(stored)), tensor_of(self._value(target.value))
            if given is None or buffer is None or given.born.isdisjoint(made) or not buffer.may_be_low:
                continue
            root = self._made_for(target.value, code)
            if root is None or buffer.precision & ~(LOW | F32):
                return ()
            found[FloatCast(site_of(code.file, root))] = None
            buffers |= buffer.born
        for site in (each for each in made if each in self._calls):
            logits = self._logits_of(site)
            tensor = None if logits is None else tensor_of(self._value(logits.node))
            if logits is not None and tensor is not None and self._is_low(logits.node) and not tensor.precision & F64:
                if tensor.born.isdisjoint(buffers):
                    found[FloatCast(logits.site)] = None
                continue
            if logits is not None and self._is_as_it_was(logits.node):  # nothing has rounded what it gives
                continue
            modules = self._modules.giving(self._calls[site]) if tensor is None else frozenset()
            if (logits and not modules) or not all(map(self._modules.may_be_of_another_class, modules)):
                return ()
            found |= {FloatCast(each, is_module=True): None for each in sorted({module.site for module in modules})}
        return tuple(found)

    @cached_property
    def _modules(self) -> SigmoidModules:
        return SigmoidModules(self._analysis, self._calls)

    def _made_for(self, name: ast.expr, code: Code) -> ast.expr | None:
        """The call that makes the tensor which a name is given, once in a function; None where others may have it."""
        values = [each.value for each in nodes_in(code.node) if isinstance(each, ast.Assign) and _is_given(name, each)]
        is_one = isinstance(name, ast.Name) and len(values) == len(code.stores(name.id)) == 1
        root = self._inward(values[0]) if is_one else None
        is_made = isinstance(root, ast.Call) and self._only_known_as(root) not in table.VIEWS
        return root if is_made and root is not None and self._is_low(root) else None

    def logits(self, probability: Tensor) -> tuple[Logits, ...]:
        """What the sigmoids get whose results a probability may be, or be made of as `p * q` and `1 - p`."""
        return tuple(filter(None, map(self._logits_of, self._made_of(probability))))

    def _logits_of(self, site: Site) -> Logits | None:
        """What the sigmoid at a place gets; None where there is none for certain."""
        node = self._calls.get(site)
        if node is None or self._only_known_as(node) != "sigmoid":
            return None
        func = node.func
        is_method = isinstance(func, ast.Attribute) and tensor_of(self._value(func.value)) is not None
        given = func.value if is_method and isinstance(func, ast.Attribute) else next(iter(node.args), None)
        return None if given is None else Logits(given, site_of(site.file, given))

    def _made_of(self, probability: Tensor) -> list[Site]:
        """Where a probability is made, and what it is made of, or holds."""
        return self._traced(probability, self._factors)

    def _traced(self, tensor: Tensor, factors: Mapping[Site, Sequence[Tensor]]) -> list[Site]:
        """Where a tensor may be made, whatever names it has had since, and its factors, if any are asked for."""
        births = self._analysis.pytorch.births
        sites = dict.fromkeys(sorted(tensor.born))
        for site in (waiting := [*sites]):
            parts = (born for each in factors.get(site, ()) for born in sorted(each.born))
            new = list(dict.fromkeys(each for each in (*parts, *sorted(births.get(site, ()))) if each not in sites))
            waiting += new
            sites |= dict.fromkeys(new)
        return waiting

    def _making(self, tensor: Tensor) -> list[Site]:
        """The calls and operators that may have made a tensor."""
        return [each for each in self._traced(tensor, {}) if each in self._computing]

    @cached_property
    def _factors(self) -> dict[Site, list[Tensor]]:
        """What is multiplied, subtracted or put together at each place: a probability is made so of others."""
        trees = ((module.file, module.tree) for module in self._analysis.modules.values() if module is not None)
        made = ((site_of(file, node), part) for file, tree in trees for node in nodes_in(tree) for part in _parts(node))
        found: defaultdict[Site, list[Tensor]] = defaultdict(list)
        for site, part in made:
            found[site] += self._tensors(self._value(part))
        return found

    def _tensors(self, value: Value) -> Iterator[Tensor]:
        """What a value is as a tensor, and what the lists and tuples in it hold."""
        if (tensor := tensor_of(value)) is not None:
            yield tensor
        for each in value:
            yield from tensors_in(one(each)) if isinstance(each, Tup) else ()
            if isinstance(each, Obj) and each.made_of is containers.LIST:
                names = (name for name in self._analysis.heap.names(each, None) if name.startswith("["))
                yield from (held for name in names for held in tensors_in(self._analysis.heap.read(each, name, None)))

    @cached_property
    def _stores(self) -> list[tuple[ast.Subscript, ast.expr, Code]]:
        """What is put into parts of something: the part, what it gets, and the function."""
        return [
            (target, node.value, code)
            for module in filter(None, self._analysis.modules.values())
            for node, code in module.every(ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Subscript)
        ]

    def _only_known_as(self, node: ast.Call) -> str:
        """The operator that a call runs; empty where it may be several."""
        if isinstance(node.func, ast.Attribute) and tensor_of(self._value(node.func.value)) is not None:
            return node.func.attr
        names = {_operator(each) for each in self._value(node.func)}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def _calls(self) -> dict[Site, ast.Call]:
        """The call at each place."""
        trees = ((module.file, module.tree) for module in self._analysis.modules.values() if module is not None)
        return {
            site_of(file, node): node for file, tree in trees for node in nodes_in(tree) if isinstance(node, ast.Call)
        }

    def island(self, event: Event) -> Island | None:
        """The statement in float32 that something happens in; None where that would take other code with it.

        That is a statement which only computes: it calls nothing with weights, no function of the project and nothing
        unknown, and changes nothing low in place, which a cast would make a copy of. Beside a refused loss, such calls
        can go before the statement.
        """
        statement = self._statements.get(event.node)
        if statement is not None and event.why in (A_RUNNING_BUFFER, A_ROUGH_INVERSE):
            statement = self._multiplying(statement, event)
        if statement is None:
            return None
        loss = event.node if event.act is Act.REFUSED else None
        return self._island(statement, event.site.file, loss, self._agreeing(event.node))

    def unread(self, call: ast.Call, file: str, kept: Collection[Site] = ()) -> tuple[Island, ...]:
        """A call of code that nobody has read, by itself and in float32, so that it computes what it did.

        It gets what is low for certain, or goes on from what is computed with weights in a region: so the region has
        more to do. All that it gets has to be float32 then, as it was: what may be low is cast, and the rest are data
        as they came, or what the called object has made itself, as the state of a recurrent layer: in float32, too.

        Args:
            kept: other such calls, and what goes before them, which have islands already, in the order of places.
        """
        given = [*call.args, *(each.value for each in call.keywords)]
        is_spread = any(isinstance(each, ast.Starred) for each in given) or any(e.arg is None for e in call.keywords)
        if is_spread or not self._goes_on_from_low(call):
            return ()
        states = {each: self._states_made(call, each) for each in given}
        low = [each for each in given if self._is_low(each) and not states[each]]
        own = [each for each in given if each not in low]
        if not all(self._is_known(each) and not self._may_be_other(each) for each in low):
            return ()
        if not all(states[each] or self._is_as_it_was(each) for each in own):
            return ()
        # What is computed for it under autocast is computed before.
        stays = [each for each in given if any(map(_path, _viewed(each))) or (each in own and self._is_plain(each))]
        before = [each for each in given if isinstance(each, ast.Call) and each not in stays]
        if before and any(isinstance(each, (ast.Call, *_RUNS_CODE)) for each in nodes_in(call.func)):
            return ()
        if not all(each in before or each in stays for each in given):
            return ()
        first = sorted({each for of in states.values() for each in of} - {call}, key=lambda each: each.lineno)
        if any(self._codes[each].file != file for each in first):
            return ()
        islands = [self._island_of_unread(each, [*each.args], [], kept, file) for each in first]
        islands.append(self._island_of_unread(call, own, before, kept, file))
        found = tuple(each for each in islands if each is not None)
        return found if len(found) == len(islands) else ()

    def _island_of_unread(
        self,
        call: ast.Call,
        own: Collection[ast.expr],
        before: Collection[ast.expr],
        kept: Collection[Site],
        file: str,
    ) -> Island | None:
        statement = self._statements.get(call)
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)) or statement.value is None:
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(each, ast.Subscript) for each in targets):
            return None
        calls = (each for each in nodes_in(statement.value) if isinstance(each, ast.Call))
        ahead = [each for each in calls if site_of(file, each) in kept]
        first = [*_calls_before(statement.value, call, ahead), *before]
        return self._island_of_call(statement.value, file, call, first, own, ahead)

    def _goes_on_from_low(self, call: ast.Call) -> bool:
        """Whether a call gets what is low for certain, or was before code was kept in float32 that nobody has read."""
        given = [tensor_of(self._value(each)) for each in (*call.args, *(each.value for each in call.keywords))]
        weights = frozenset(leaf for leaves in self._analysis.pytorch.weighing.values() for leaf in leaves)
        known = frozenset(each for each in weights if isinstance(each, Part) and isinstance(each.owner, Obj))
        return any(each is not None and (each.is_low or overlap(known, each.reach) is True) for each in given)

    def _is_as_it_was(self, node: ast.expr) -> bool:
        """Whether nothing in a value is low for what regions do: no tensor, or one that came as it is, or is known."""
        value = self._value(node)
        return bool(value) and all(
            (isinstance(each, Tensor) and not each.may_be_low)
            or isinstance(each, (Const, Class, External))
            or (isinstance(each, Opaque) and _is_in_sight(each) and not (each.tensor and each.tensor.may_be_low))
            for each in value
        )

    def _is_plain(self, node: ast.expr) -> bool:
        """Whether something calls nothing, or casts what has a name: what is not low is so without autocast, too."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._is_cast(node, node.func.attr) and any(map(_path, _viewed(node.func.value)))
        return not any(isinstance(each, (ast.Call, *_RUNS_CODE, *_CHOOSING)) for each in nodes_in(node))

    def _states_made(self, call: ast.Call, node: ast.expr) -> set[ast.Call]:
        """The calls that have made something: this one, or methods of the same object which get nothing low."""
        sites = [each.made_at if isinstance(each, Opaque) else None for each in self._value(node)]
        making = {None if site is None else self._calls.get(site) for site in sites}
        found = {each for each in making if each is not None and (each is call or self._begins(each, call))}
        return found if len(found) == len(making) else set()

    def _begins(self, first: ast.Call, call: ast.Call) -> bool:
        """Whether a call is one of a method of what another calls, and gets nothing that is low for what regions do."""
        given = (*first.args, *(each.value for each in first.keywords))
        owners = owners_of(self._value(first.func))
        return self._value(call.func).issuperset(owners) and all(map(self._is_as_it_was, given))

    def _agreeing(self, product: ast.AST) -> list[ast.expr]:
        """The operands of a product that are tensors, and as precise as it is, or PyTorch refused them.

        That are all of one with something that was float32. Of what is low or float32, and may be no tensor, it is what
        one of PyTorch's functions gets by its name, be it looked at in another shape beside that.
        """
        if not self._is_low_product(product):
            return []
        operands = [*self._operands(product)]
        found = {each: tensor_of(self._value(each)) for each in operands}
        if any(each is not None and each.precision == F32 for each in found.values()):
            return operands
        called = self._value(product.func) if isinstance(product, ast.Call) else NEVER
        if not called or not all(isinstance(each, External) for each in called):
            return []
        floating = [each for each, of in found.items() if of is not None and not of.precision & ~(LOW | F32)]
        names = {each.id for each in floating if isinstance(each, ast.Name)}
        roots = {each: [*_viewed(each)][-1] for each in floating}
        return [each for each, root in roots.items() if isinstance(root, ast.Name) and root.id in names]

    def beside_inverse(self, event: Event) -> Iterator[Event]:
        """The products in half precision that go into a product with an inverse, each as a risk by itself."""
        waiting, seen = [event.node], set[Site]()
        while waiting:
            node = waiting.pop()
            operands = [node.operand] if isinstance(node, ast.UnaryOp) else self._operands(node)
            given = (tensor_of(self._value(each)) for each in operands)
            rough = (each for each in given if each is not None and each.tags & ROUGH and not each.tags & OF_INVERSE)
            for site in sorted(frozenset().union(*(each.born for each in rough)) - seen):
                seen.add(site)
                made, code = self._computing.get(site, (None, event.code))
                if made is not None and not (isinstance(made, ast.Call) and self._is_layer(made)):
                    waiting.append(made)
                    if self._is_low_product(made):
                        yield replace(event, act=Act.RISK, site=site, node=made, code=code, why=BESIDE_AN_INVERSE)

    def unrounded(self, event: Event) -> dict[Site, tuple[Island, tuple[FloatCast, ...]]]:
        """The rounded means that a difference is made of, each in float32, with what their weights are rounded for.

        Nothing where that is not possible for each of them: the difference is as rough as its roughest mean.
        """
        found: dict[Site, tuple[Island, tuple[FloatCast, ...]]] = {}
        for site in sorted(event.sources):
            mean, code = self._computing.get(site, (None, event.code))
            island = None if mean is None else self.island(replace(event, site=site, node=mean, code=code))
            if mean is None or island is None:
                return {}
            tensors = [each for of in self._operands(mean) if (each := tensor_of(self._value(of))) is not None]
            found[site] = island, tuple(self._rounded_for(tensors[1:2]))
        return found

    def _rounded_for(self, weights: Sequence[Tensor]) -> Iterator[FloatCast]:
        """What something is cast to the precision of (`window.type_as(x)`), and would not be where that is float32."""
        born = frozenset[Site]().union(*(each.born for each in weights if each.may_be_low))
        for site, call in self._calls.items() if born else ():
            made = tensor_of(self._value(call)) if _is_casting(call) else None
            if made is not None and made.may_be_low and not made.born.isdisjoint(born):
                for each in call.args[:1]:
                    like = each.value if isinstance(each, ast.Attribute) and each.attr == "dtype" else each
                    if self._may_be_low(like) and not self._may_be_other(like):
                        yield FloatCast(site_of(site.file, like))

    def derived_twice(self, event: Event) -> tuple[Island, ...]:
        """The statements that compute through a norm in float16 what a gradient is taken of, to be derived again.

        In float32, and of float32, they give what they gave. Where the gradient is taken in a region, which derives in
        half precision as well, it is the calls of the function that takes it. Nothing where one cannot be seen, or
        gets something of which nobody knows whether a cast takes anything from it.
        """
        if event.context is None or event.context.in_gradient or not isinstance(event.node, ast.Call):
            return ()
        on, full = event.context.cuda.on, "torch.autograd.grad"
        outputs, inputs = (argument(event.node, full, name, at) for at, name in enumerate(("outputs", "inputs")))
        forwards: list[tuple[ast.expr, Code]] = []
        if on == OFF and outputs is not None and inputs is not None:
            normalizing = self._normalizing(outputs, inputs, event.code)
            forwards = [(each.value, code) for each, code in normalizing.items()]
        elif on == ON:
            calls = self._callers.get(event.code, ())
            inside = ((call, code) for call, code in calls if self._is_in_region(call, code, event))
            forwards = sorted(inside, key=lambda each: site_of(each[1].file, each[0]))
        found: list[Island] = []
        for forward, code in forwards:
            kept = {site for each in found for site in (each.alone or each.value, *each.before)}
            island = self._island_of_forward(forward, code.file, kept)
            if island is None:
                return ()
            found.append(island)
        return tuple(found)

    def _is_in_region(self, call: ast.Call, code: Code, event: Event) -> bool:
        """Whether a call stands in a region in which something happens, or in a function that is called in one."""
        tasks = with_callers(each for each in event.seen_by if isinstance(each, Task))
        if any(task.code is code and task.context.cuda.may_be_on for task in tasks):
            return True
        opened = frozenset[Site]() if event.context is None else event.context.cuda.regions
        inside = (each for top in code.body for each in nodes_in(top) if isinstance(each, ast.With))
        around = (each for each in inside if any(site_of(code.file, it.context_expr) in opened for it in each.items))
        return any(call in nodes_in(each) for each in around)

    def _normalizing(self, outputs: ast.expr, inputs: ast.expr, code: Code) -> dict[ast.Assign, Code]:
        """The statements that compute something of some inputs through a norm in float16.

        None where one of them cannot be seen.
        """
        names = {each.id: each for each in nodes_in(inputs) if isinstance(each, ast.Name)}
        ends = frozenset(each for name in names.values() for each in self._value(name) if isinstance(each, Tensor))
        found: dict[ast.Assign, Code] = {}
        waiting = {outputs: code}
        for node in (asked := [outputs]):
            inside = waiting[node]
            behind = [each for each in self._normalized_in(node) if ends.isdisjoint(self._value(each))]
            for name in (each for each in behind if inside is not code or each.id not in names):
                for statement in reaching(inside.body, name):
                    more = self._given_by_callers(name.id, inside) if statement is None else {}
                    if isinstance(statement, ast.Assign):
                        if not all(map(self._only_computes, nodes_in(statement.value))):
                            found[statement] = inside
                        if statement in found or self._normalized_in(statement.value):
                            more = {statement.value: inside}
                    if not more:
                        return {}
                    asked += [each for each in more if each not in waiting]
                    waiting |= more
        return found

    def _normalized_in(self, node: ast.expr) -> list[ast.Name]:
        """The names in an expression of what comes through a norm in float16."""
        names = (each for each in nodes_in(node) if isinstance(each, ast.Name))
        return [each for each in names if any(of.tags & NORMALIZED for of in self._tensors(self._value(each)))]

    def _given_by_callers(self, name: str, code: Code) -> dict[ast.expr, Code]:
        """What all callers of a function give for a parameter; nothing where one cannot be seen to."""
        calls = self._callers.get(code, ()) if _is_parameter(code, name) else ()
        given = [(self._argument(call, code, name), caller) for call, caller in calls]
        found = {each: caller for each, caller in given if each is not None}
        return found if len(found) == len(given) else {}

    def _island_of_forward(self, forward: ast.expr, file: str, kept: Collection[Site]) -> Island | None:
        """What a statement computes, or a call in it, by itself and in float32, with all that is called in that.

        Args:
            kept: other such calls, and what goes before them, which have islands already, in the order of places.
        """
        statement, inside = self._statements[forward], [*nodes_in(forward)]
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)) or statement.value is None:
            return None
        methods = [each.func for each in inside if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
        changed = [each.value for each in methods if each.attr.endswith("_") and not each.attr.endswith("__")]
        # What else has it, as what the gradient is taken by, would not be what a cast gives.
        if any(map(self._may_be_lowered, changed)) or any(isinstance(each, _RUNS_CODE) for each in inside):
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(each, ast.Subscript) for target in targets for each in nodes_in(target)):
            return None
        named = [self._asked(each) for each in self._named_in(forward)]
        if not all(map(self._is_known, named)):
            return None
        low = (each for each in named if self._may_be_lowered(each))
        casts = (FloatCast(site_of(file, each), is_floating=self._is_sure_to_float(each)) for each in low)
        value = statement.value
        island: Island | None = Island(site_of(file, value))
        if isinstance(forward, ast.Call) and forward not in (value, getattr(value, "value", None)):
            calls = (each for each in nodes_in(value) if isinstance(each, ast.Call))
            ahead = [each for each in calls if site_of(file, each) in kept]
            island = self._island_of_call(value, file, forward, [*_calls_before(value, forward, ahead)], (), ahead)
        return island and replace(island, casts=tuple(dict.fromkeys(casts)))

    def _is_layer(self, call: ast.Call) -> bool:
        name = self._only_known_as(call)
        return not name or name in table.WEIGHTED

    @cached_property
    def _computing(self) -> dict[Site, tuple[ast.expr, Code]]:
        """The calls and operators at each place, each with the function that it is in."""
        modules = (module for module in self._analysis.modules.values() if module is not None)
        nodes = ((module.file, node, code) for module in modules for node, code in module.nodes())
        kinds = (ast.Call, ast.BinOp, ast.UnaryOp)
        return {site_of(file, node): (node, code) for file, node, code in nodes if isinstance(node, kinds)}

    def _multiplying(self, statement: ast.stmt, event: Event) -> ast.stmt | None:
        """The statement with the product that one takes: itself, or what gives a name in it a value; None for none."""
        names = {each.id for each in nodes_in(statement) if isinstance(each, ast.Name)}
        inside = (each for top in event.code.body for each in nodes_in(top))
        made = (each for each in inside if isinstance(each, ast.Assign) and _names_of(each) & names)
        return next((each for each in (statement, *made) if any(map(self._is_low_product, nodes_in(each)))), None)

    def _is_low_product(self, node: ast.AST) -> bool:
        is_product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        if isinstance(node, ast.Call):
            is_product = self._only_known_as(node) in table.PRODUCTS
        return is_product and isinstance(node, ast.expr) and self._may_be_low(node)

    def measured(self, file: str, line: int) -> tuple[Site, Island | None] | None:
        """The statement of a line that computes in low precision, and as an island; None where nothing is low there."""
        module = self._analysis.modules.get(file)
        statements = [] if module is None else [each for each in nodes_in(module.tree) if isinstance(each, ast.stmt)]
        around = [each for each in statements if each.lineno <= line <= (each.end_lineno or 0)]
        statement = max(around, key=lambda each: each.lineno, default=None)
        if statement is None or not any(map(self._may_be_low, _on_line(statement, line))):
            return None
        return site_of(file, statement), self._island(statement, file)

    def _island(
        self, statement: ast.stmt, file: str, loss: ast.AST | None = None, agreeing: Collection[ast.expr] = ()
    ) -> Island | None:
        if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)) or statement.value is None:
            return None
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(each, ast.Subscript) and not self._is_entry(each) for each in targets):
            return None
        # A sum that may be low is no larger for what is float32 in it; a refused loss need only be computed.
        if isinstance(statement, ast.AugAssign) and loss is None and self._may_be_low(statement.target):
            return None
        operands = agreeing if loss is None else [*self._operands(loss)]
        given = [one for each in operands for one in _viewed(each)]
        before = [] if loss is None else [*self._computed_before(statement.value, loss)]
        inside = [*_walk(statement.value, before)]
        if (loss is not None and loss not in inside) or self._is_read_too_late(statement.value, before):
            return None
        if isinstance(loss, ast.Call) and any(_is_behind(each, loss) for each in before) and self._is_object(loss.func):
            return self._island_of_call(statement.value, file, loss, before)
        if before and any(isinstance(each, ast.Call) and self._only_known_as(each) in table.RANDOM for each in inside):
            return None  # what goes before may draw, too
        if not all(self._only_computes(each, is_refused=each is loss) for each in inside):
            return None
        named = [self._asked(each) for each in self._named_in(statement.value, before)]
        # What a refused loss gets is a tensor, be it known or not, as is what that is a view of; no cast for what is
        # not low.
        if not all(
            each in given or self._is_known(each) or (loss and not self._may_be_lowered(each)) for each in named
        ):
            return None
        low = dict.fromkeys(
            FloatCast(
                site_of(file, each), is_floating=loss is not None or each in given or self._is_sure_to_float(each)
            )
            for each in named
            if self._may_be_lowered(each)
        )
        if isinstance(loss, ast.Call) and self._is_taken_alone(loss):  # what callers would give it is not known
            compared = {each: tensor_of(self._value(each)) for each in _compared(loss)}
            unknown = (each for each, tensor in compared.items() if tensor is not None and tensor.precision & OTHER)
            low |= dict.fromkeys(FloatCast(site_of(file, each)) for each in unknown if each not in before)
        return Island(site_of(file, statement.value), tuple(low), tuple(site_of(file, each) for each in before))

    def _is_taken_alone(self, node: ast.AST) -> bool:
        taken = self._analysis.taken_alone
        return any(event.node is node and event.code in taken for event in self._analysis.events.values())

    def _island_of_call(
        self,
        value: ast.expr,
        file: str,
        loss: ast.Call,
        before: Collection[ast.expr],
        kept: Collection[ast.expr] = (),
        ahead: Collection[ast.AST] = (),
    ) -> Island | None:
        """A refused loss by itself, computed before the rest of its statement, in which calls go on behind it.

        Its module may be anything that a caller hands in: nothing is to run before it that did not, nor behind it.

        Args:
            kept: what it gets, and needs no cast.
            ahead: calls in the same statement that are taken out before it is.
        """
        first = [each for each in before if not _is_behind(each, loss)]
        if self._is_read_too_late(value, first):
            return None
        for each in _walk(value, [loss, *first, *ahead]):
            if loss in nodes_in(each):
                is_free = not isinstance(each, (*_RUNS_CODE, *_CHOOSING))
            else:
                is_free = _is_behind(each, loss) or not isinstance(each, (ast.Call, *_RUNS_CODE))
            if not is_free:
                return None
        named = (each for each in self._named_in(loss, before) if each not in kept and self._may_be_lowered(each))
        low = dict.fromkeys(FloatCast(site_of(file, each)) for each in named)
        alone = None if loss is value else site_of(file, loss)
        return Island(site_of(file, value), tuple(low), tuple(site_of(file, each) for each in first), alone)

    def _is_read_too_late(self, value: ast.expr, before: Collection[ast.expr]) -> bool:
        """Whether calls that go before their statement may change what it has read: an entry, an attribute."""
        running = [each for each in before if isinstance(each, ast.Call) and self._analysis.callees.get(each)]
        return any(
            isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in self._given_later)
            for node in (_walk(value, before) if running else ())
            if isinstance(node, ast.expr) and any(_place(node) < _place(each) for each in running)
        )

    @cached_property
    def _given_later(self) -> frozenset[str]:
        """The attributes that get a value outside of constructors."""
        modules = filter(None, self._analysis.modules.values())
        nodes = ((node, code) for module in modules for node, code in module.nodes() if isinstance(node, ast.Attribute))
        return frozenset(
            node.attr for node, code in nodes if code.name != "__init__" and not isinstance(node.ctx, ast.Load)
        )

    def _is_object(self, called: ast.expr) -> bool:
        return any(isinstance(each, Obj) for each in self._value(called))

    def _is_entry(self, target: ast.Subscript) -> bool:
        """Whether something is an entry of a container, which has no precision of its own."""
        held = self._value(target.value)
        return bool(held) and all(isinstance(each, Obj) and each.external.startswith("builtins.") for each in held)

    def _computed_before(self, node: ast.expr, loss: ast.AST) -> Iterator[ast.Call]:
        """The calls beside a loss that do more than compute, and run once whenever it does."""
        if isinstance(node, ast.Call) and not self._only_computes(node, is_refused=node is loss):
            if tensor_of(self._value(node)) is not None:
                yield node
        elif not isinstance(node, (*_RUNS_CODE, *_CHOOSING)):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.expr, ast.keyword)):
                    yield from self._computed_before(child.value if isinstance(child, ast.keyword) else child, loss)

    def _only_computes(self, node: ast.AST, *, is_refused: bool = False) -> bool:
        if not isinstance(node, ast.Call):
            return not isinstance(node, _RUNS_CODE)
        if self._analysis.callees.get(node) or any(each.arg in ("out", "inplace", None) for each in node.keywords):
            return False
        if isinstance(node.func, ast.Attribute) and tensor_of(self._value(node.func.value)) is not None:
            owner = node.func.value
            return not (node.func.attr.endswith("_") and self._may_be_low(owner) and not self._is_new(owner))
        made = self._value(node)  # `nn.BCELoss()(p, y)` makes the module whose operator it is
        count = len(node.args) + len(node.keywords)
        fitting = (each for each in self._value(node.func) if not isinstance(each, Obj) or takes(each.external, count))
        known = [
            each for each in (made if _are_modules(made) else fitting) if not (is_refused and _is_of_project(each))
        ]
        names = [_operator(each) for each in known if not _is_of_numbers(each)]
        weighted = frozenset() if self._is_without_weights(node, known) else table.WEIGHTED
        return (is_refused or bool(known)) and all(
            each in _OF_NUMBERS | table.CREATED | table.LIKE or (each in table.RESULT and each not in weighted)
            for each in names
        )

    def _is_new(self, node: ast.expr) -> bool:
        """Whether an expression makes a tensor that nobody else has."""
        return isinstance(node, ast.Call) and self._only_known_as(node) in table.LIKE

    def _is_without_weights(self, call: ast.Call, called: Iterable[object]) -> bool:
        """Whether a function or transform is called as a layer is, and gets no parameter: `F.conv2d(image, window)`."""
        given = (tensor_of(self._value(each)) for each in self._operands(call))
        return all(map(_has_no_weights, called)) and not any(each and each.leaf for each in given)

    def _named_in(self, node: ast.AST, before: Collection[ast.AST] = ()) -> Iterator[ast.expr]:
        """What an expression computes with that has a name, or gets one as it is computed before."""
        if node in before and isinstance(node, ast.expr):
            yield node
        elif isinstance(node, ast.Call):
            is_asked = isinstance(node.func, ast.Attribute) and node.func.attr in table.NO_TENSORS
            if isinstance(node.func, ast.Attribute) and self._is_cast(node, node.func.attr):
                return
            if not _ASKING.isdisjoint(self._value(node.func)):
                return
            inner = [node.func.value] if isinstance(node.func, ast.Attribute) and not is_asked else []
            inner += [node.func] if isinstance(node.func, ast.Call) else []
            for each in (*inner, *node.args, *(each.value for each in node.keywords)):
                yield from self._named_in(each, before)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if not (isinstance(node, ast.Attribute) and node.attr in table.NO_TENSORS):
                yield node
        else:
            for child in ast.iter_child_nodes(node):
                yield from self._named_in(child, before)

    def _is_cast(self, call: ast.Call, name: str) -> bool:
        """Whether a method gives a tensor a dtype whatever it had: what it is called on needs no cast."""
        made = tensor_of(self._value(call)) if name in ("to", "type") else None
        return name in table.DTYPE_METHODS or (made is not None and made.precision == F32)

    def _is_known(self, node: ast.expr) -> bool:
        """Whether a tensor is as precise as it was, or a cast takes nothing from it; or something is no tensor.

        What a module that nobody has read gives in a region may be of another type: one that has a name can be asked.
        """
        value = self._value(node)
        tensor = tensor_of(value)
        if tensor is None or not self._may_be_lowered(node):
            unknown = [each for each in value if isinstance(each, Opaque)]
            return bool(value) and all(map(_is_in_sight, unknown)) and not any(map(self._may_hold_results, unknown))
        is_asked = _path(node) and not tensor.precision & F64
        return (is_asked or not self._may_be_other(node)) and not any(isinstance(each, Opaque) for each in value)

    def _asked(self, node: ast.expr) -> ast.expr:
        """What has a name, to be asked whether it is floating, where nobody knows it of a part: `x` of `x[:, None]`."""
        is_part = isinstance(node, ast.Subscript) and self._may_be_lowered(node) and not self._is_known(node)
        return node.value if is_part and isinstance(node, ast.Subscript) and self._is_tensor(node.value) else node

    def _is_tensor(self, node: ast.expr) -> bool:
        value = self._value(node)
        return bool(value) and all(isinstance(each, Tensor) for each in value)

    def _may_be_other(self, node: ast.expr) -> bool:
        """Whether a tensor may be anything but float32 and half precision."""
        tensor = tensor_of(self._value(node))
        return tensor is not None and bool(tensor.precision & ~(LOW | F32))

    def _is_always_low(self, node: ast.expr) -> bool:
        tensor = tensor_of(self._value(node))
        return tensor is not None and tensor.is_low

    def _may_be_low(self, node: ast.expr) -> bool:
        tensor = tensor_of(self._value(node))
        return tensor is not None and tensor.may_be_low

    def _may_be_lowered(self, node: ast.expr) -> bool:
        """Whether a tensor may be low, for all that is known: as what a model has given that nobody has read."""
        return self._may_be_low(node) or self._may_come_from_unread(self._value(node), set())

    def _may_come_from_unread(self, value: Value, seen: set[Site]) -> bool:
        """Whether a tensor of a precision that nobody knows may be made of what such a model gave in a region."""
        sites = [site for each in value if isinstance(each, Tensor) and each.precision & OTHER for site in each.born]
        for site in sites:
            if site not in seen:
                seen.add(site)
                operands = [*self._operands(self._computing[site][0])] if site in self._computing else []
                for given in map(self._value, operands):
                    unknown = (each for each in given if isinstance(each, Opaque) and each.tensor is None)
                    if any(map(self._may_hold_results, unknown)) or self._may_come_from_unread(given, seen):
                        return True
        return False

    def _may_hold_results(self, unknown: Opaque) -> bool:
        """Whether something may hold what a model has given that nobody has read, in a region.

        It was made of one, as what keeps its features is; or nobody knows where it comes from.
        """
        if not unknown.path:
            return bool(self._analysis.pytorch.of_unread)
        call = None if unknown.made_at is None else self._calls.get(unknown.made_at)
        given = [] if call is None else [*call.args, *(each.value for each in call.keywords)]
        return any(
            by_path(each) in self._unread_models for of in given for each in self._value(of) if isinstance(each, Atom)
        )

    @cached_property
    def _unread_models(self) -> frozenset[Atom]:
        """What computes with weights in regions of which nobody has read the code."""
        weights = (leaf for leaves in self._analysis.pytorch.weighing.values() for leaf in leaves)
        owners = (each.owner for each in weights if isinstance(each, Part))
        return frozenset(
            each for each in owners if isinstance(each, Opaque) or (isinstance(each, Obj) and each.external)
        )

    @staticmethod
    def _is_left(event: Event) -> bool:
        """Whether operands differ because one of them comes out of a region, or autocast leaves them as they are."""
        must_agree = event.why in table.MUST_AGREE or event.why in table.AGREEING_IN_GRADIENT
        return (_is_outside(event) and must_agree) or event.why in table.AGREE_UNDER_AUTOCAST

    def _changes_more_precise(self, event: Event) -> bool:
        """Whether what is low meets something more precise that changes in place, which autocast leaves alone."""
        if not _is_in_place(event.node):
            return False
        changed = tensor_of(self._value(next(self._operands(event.node))))
        return changed is not None and not changed.is_low

    def _stored(self, event: Event) -> Iterator[FloatCast]:
        """What is put into a buffer of another precision, which gets the buffer's."""
        node = event.node
        buffer: ast.expr | None = None
        value: ast.expr | None = None
        if isinstance(node, ast.Call):
            buffer, value = self._put_in(node)
        elif isinstance(node, ast.Subscript):
            buffer, value = node.value, self._assigned(node)
            # What is put there is float32; where the tensor is, too, a cast of what it is made like does nothing.
            born = frozenset[Site]() if event.tensor is None else event.tensor.born
            if value is None and any(born & each.born for each in tensors_in(self._value(buffer))):
                yield from self._made_like(event, buffer)
        if buffer is None or value is None:
            return
        # A dictionary has no precision; and what is put into a tensor by index is of its precision, or PyTorch raises.
        is_tensor, are_tensors = (all(isinstance(one, Tensor) for one in self._value(each)) for each in (buffer, value))
        given = tensor_of(self._value(value))
        is_known = given is not None and not given.precision & ~(LOW | F32)
        is_float32 = (
            given is not None and (is_known or (are_tensors and given.precision & F32)) and self._is_low(buffer)
        )
        if _path(buffer) and is_tensor and (self._is_low(value) or is_float32):
            yield FloatCast(site_of(event.code.file, value), ast.unparse(buffer))

    def _put_in(self, call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
        """The tensor that a method or function puts something into, and what that is, if they are to be seen."""
        func = call.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        place, word = table.STORES.get(name.removesuffix("_"), (0, ""))
        given = [] if any(isinstance(each, ast.Starred) for each in call.args) else call.args
        if isinstance(func, ast.Attribute) and not any(isinstance(each, External) for each in self._value(func.value)):
            given = [func.value, *given]
        named = {each.arg: each.value for each in call.keywords}
        buffer = given[0] if given else named.get("input")
        return buffer, given[place] if 0 < place < len(given) else named.get(word)

    def _assigned(self, target: ast.expr) -> ast.expr | None:
        """What a target is given, be it with others: `out[inside], slope[inside] = a, b`."""
        parent = self._statements.get(target)
        if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
            return None
        whole, value = parent.targets[0], parent.value
        if not isinstance(whole, ast.Tuple) or target not in whole.elts:
            return value if whole is target else None
        is_paired = isinstance(value, ast.Tuple) and len(value.elts) == len(whole.elts)
        return value.elts[whole.elts.index(target)] if is_paired and isinstance(value, ast.Tuple) else None

    # Which expression it is

    def _outward(
        self, node: ast.expr, code: Code, event: Event, seen: frozenset[Code] = frozenset()
    ) -> Iterator[FloatCast]:
        """The casts for an operand: at the calls of its function where it is a parameter, else where it stands."""
        root = self._inward(node)
        inner = self._left_float.get(root)
        if inner is not None and inner is not event:  # it is float32 as soon as what it is computed from is
            yield from self._of_low(root, code, inner)
            return
        given = {} if code in seen else self._given(root, code, event)
        if given:
            for each, caller in given.items():
                yield from self._outward(each, caller, event, seen | {code})
            return
        is_floating = _is_floating(root) or self._is_sure_to_float(root)
        # A test whether it is floating names it three times.
        is_asked = event.act in (Act.TO_NUMPY, Act.FOREIGN) and not any(
            isinstance(each, ast.Call) for each in nodes_in(root)
        )
        if is_floating or is_asked:
            yield FloatCast(site_of(code.file, root), is_floating=is_floating)

    def _is_sure_to_float(self, node: ast.expr) -> bool:
        """Whether a tensor is float32 or low, be it by what it is computed with; or something is none."""
        tensor = tensor_of(self._value(node))
        others = 0 if tensor is None else tensor.precision & ~(LOW | F32)
        return not others or (others == OTHER and self._is_computed_with_floats(node, {}))

    def _is_computed_with_floats(self, node: ast.expr, known: dict[Site, bool]) -> bool:
        """Whether a tensor is floating, whatever else is in it that nobody knows: one of its operands is.

        Args:
            known: what makes floating tensors, and what does not; of what is asked just now, that it does.
        """
        tensor = tensor_of(self._value(node))
        if tensor is None or tensor.precision & (F64 | INT | BOOL | COMPLEX):
            return False
        if not tensor.precision & OTHER or _is_floating(node):
            return True
        if isinstance(node, ast.Call) and self._takes_dtype(node):
            return False
        if isinstance(node, (ast.BinOp, ast.Call)):
            tensors = [each for each in self._operands(node) if tensor_of(self._value(each)) is not None]
            kind = table.PROMOTED if isinstance(node, ast.BinOp) else table.RESULT.get(self._only_known_as(node))
            asked = tensors if kind == table.PROMOTED else tensors[:1] if kind == table.SAME else []
            return kind == table.FLOATED or any(self._is_computed_with_floats(each, known) for each in asked)
        traced = self._traced(tensor, {})
        made = [each for each in traced if each in self._computing]
        is_sure = bool(made) and self._recast.isdisjoint(traced)
        return is_sure and all(self._makes_floats(each, known) for each in made)

    def _makes_floats(self, site: Site, known: dict[Site, bool]) -> bool:
        if site not in known:
            asked = known | {site: True}
            is_floating = self._is_computed_with_floats(self._computing[site][0], asked)
            # With what does not hold goes what follows from it.
            known |= asked if is_floating else {each: False for each, floats in asked.items() if not floats}
            known[site] = is_floating
        return known[site]

    @cached_property
    def _recast(self) -> frozenset[Site]:
        """Where tensors are made that get the dtype of what nobody knows: `window.type_as(x)`."""
        made = (tensor_of(self._value(each)) for each in self._calls.values() if self._takes_dtype(each))
        return frozenset().union(*(each.born for each in made if each is not None and each.precision & OTHER))

    def _takes_dtype(self, call: ast.Call) -> bool:
        """Whether a method gives a tensor the dtype of another, or one that it is told: `window.type_as(x)`."""
        given = (*call.args, *(each.value for each in call.keywords))
        of_given = (atom for each in given for atom in self._value(each))
        return _is_casting(call) and any(isinstance(each, (Tensor, Dtype)) for each in of_given)

    def _given(self, root: ast.expr, code: Code, event: Event) -> dict[ast.expr, Code]:
        """The low arguments of a function that an operand in it comes from, each with the function of the call."""
        assert event.tensor is not None
        assert event.context is not None
        if isinstance(root, ast.Name) and _is_parameter(code, root.id):
            names = [root.id]
        elif event.context.cuda.on == OFF and not any(_holds(code, each) for each in event.tensor.regions):
            names = [each.arg for each in code.parameters]  # what is low there has come in with one of them
        else:
            return {}
        calls = self._callers.get(code, ())
        given = [(self._argument(call, code, name), caller) for name in names for call, caller in calls]
        return {each: caller for each, caller in given if each is not None and self._is_from(each, event.tensor)}

    def _given_low(self, node: ast.expr, code: Code, event: Event) -> bool:
        """Whether an operand may be a tensor that has become low, or something else, and calls tell which it is."""
        tensors = (each for each in self._value(node) if isinstance(each, Tensor))
        is_low = any(each.may_be_low and event.tensor and each.regions & event.tensor.regions for each in tensors)
        return is_low and bool(self._given(self._inward(node), code, event))

    def _inward(self, node: ast.expr) -> ast.expr:
        """The low tensor at the start of a chain whose every link stays as precise as what it is given."""
        while isinstance(node, (ast.Call, ast.Attribute)):
            inner = self._link(node)
            if inner is None or not self._is_low(inner):
                break
            node = inner
        return node

    def _link(self, node: ast.Call | ast.Attribute) -> ast.expr | None:
        """What a method or function of tensors is called on; None for one that makes a precision of its own."""
        if isinstance(node, ast.Attribute):
            return node.value if node.attr in _SAME else None
        func = node.func
        names = [operator_name(each.name) for each in self._value(func) if isinstance(each, External)]
        if names:
            inner = node.args[0] if node.args else None
        elif isinstance(func, ast.Attribute):
            names, inner = [func.attr], func.value
        else:
            return None
        keeps = all(each in _SAME or (each in table.RESULT and table.AUTOCAST.get(each) != table.LOW) for each in names)
        return inner if keeps else None

    def _operands(self, node: ast.AST) -> Iterator[ast.expr]:
        if isinstance(node, ast.BinOp):
            yield from (node.left, node.right)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node.func.value
            yield from (each for each in node.args if not isinstance(each, ast.Starred))
            yield from (each.value for each in node.keywords if each.arg is not None)
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and (stored := self._assigned(node)) is not None:
            yield stored
        elif isinstance(node, ast.Return) and node.value is not None:
            yield from _held_in(node.value)
        elif isinstance(node, ast.expr):  # what `x += y` adds
            yield node
        elif isinstance(node, ast.AugAssign):
            yield node.value

    def _is_from(self, node: ast.expr, low: Tensor) -> bool:
        """Whether an expression is a tensor that the regions have made low which have made another low."""
        found = tensor_of(self._value(node))
        return self._is_low(node) and found is not None and not found.regions.isdisjoint(low.regions)

    def _is_low(self, node: ast.expr) -> bool:
        value = self._value(node)
        is_tensor = all(isinstance(each, Tensor) or (isinstance(each, Opaque) and each.tensor) for each in value)
        found = tensor_of(value) if is_tensor else None
        return found is not None and found.may_be_low and bool(found.regions)

    def _value(self, node: ast.expr) -> Value:
        return self._analysis.values.get(node, NEVER)

    # Who calls whom

    @staticmethod
    def _argument(call: ast.Call, code: Code, name: str) -> ast.expr | None:
        """What a call gives for a parameter; None where that cannot be told, or it is the default."""
        named = next((each.value for each in call.keywords if each.arg == name), None)
        if named is not None or any(isinstance(each, ast.Starred) for each in call.args):
            return named
        is_method = code.parent is not None and isinstance(code.parent.node, ast.ClassDef)
        at = next(index for index, each in enumerate(code.parameters) if each.arg == name) - is_method
        return call.args[at] if 0 <= at < len(call.args) else None

    @cached_property
    def _callers(self) -> dict[Code, list[tuple[ast.Call, Code]]]:
        found: dict[Code, list[tuple[ast.Call, Code]]] = defaultdict(list)
        for call, code in self._codes.items():
            for callee in self._analysis.callees.get(call, ()):
                found[callee].append((call, code))
        return found

    @cached_property
    def _codes(self) -> dict[ast.Call, Code]:
        """The function that each call is in."""
        modules = filter(None, self._analysis.modules.values())
        return {call: code for module in modules for call, code in module.calls.items()}

    @cached_property
    def _statements(self) -> dict[ast.AST, ast.stmt]:
        """The statement that each expression stands in."""
        found: dict[ast.AST, ast.stmt] = {}
        for module in filter(None, self._analysis.modules.values()):
            stack: list[tuple[ast.AST, ast.stmt | None]] = [(module.tree, None)]
            while stack:
                node, around = stack.pop()
                if isinstance(node, ast.stmt):
                    around = node
                if around is not None:
                    found[node] = around
                stack += [(each, around) for each in ast.iter_child_nodes(node)]
        return found


def _is_casting(call: ast.Call) -> bool:
    """Whether a method is called that may give a tensor another dtype."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type", "type_as")


def _follows(node: ast.expr, others: Sequence[ast.expr]) -> bool:
    """Whether something gets the dtype of another operand, and is float32 as soon as that is: `y.to(x.dtype)`."""
    if not (isinstance(node, ast.Call) and _is_casting(node)):
        return False
    given = [*node.args, *(each.value for each in node.keywords)]
    texts = {ast.unparse(each) for each in others if each is not node}
    return any(ast.unparse(each).removesuffix(".dtype") in texts for each in given)


def _compared(loss: ast.Call) -> list[ast.expr]:
    """What a loss compares: its first two arguments are tensors for certain, where a weight may be None."""
    named = (each.value for each in loss.keywords if each.arg in ("input", "target"))
    return [*(each for each in loss.args[:2] if not isinstance(each, ast.Starred)), *named]


def _viewed(node: ast.expr) -> Iterator[ast.expr]:
    """A tensor, and what it is a view of: `p.reshape(n, -1)`, `p`."""
    yield node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in table.VIEWS:
        yield from _viewed(node.func.value)


def _is_behind(node: ast.AST, loss: ast.expr) -> bool:
    """Whether an expression of the same statement begins where a call has ended."""
    end = loss.end_lineno, loss.end_col_offset
    return isinstance(node, ast.expr) and _place(node) >= (end[0] or 0, end[1] or 0)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _calls_before(node: ast.AST, call: ast.Call, without: Collection[ast.AST]) -> Iterator[ast.expr]:
    """The calls of an expression that end before one of them begins, but for some; not what is in them."""
    if isinstance(node, ast.Call) and call not in nodes_in(node):
        if node not in without and not _is_behind(node, call):
            yield node
    elif node is not call:
        for child in ast.iter_child_nodes(node):
            yield from _calls_before(child, call, without)


def _walk(node: ast.AST, without: Collection[ast.AST]) -> Iterator[ast.AST]:
    """An expression and what is in it, but for some parts."""
    if node not in without:
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, without)


def _parts(node: ast.AST) -> list[ast.expr]:
    """What is multiplied, added or subtracted, and what a call adds up, takes apart or puts together."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add, ast.Sub)):
        return [node.left, node.right]
    func = node.func if isinstance(node, ast.Call) else None
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    if not isinstance(node, ast.Call) or name not in table.EXACT | {"sum"}:
        return []
    given = [func.value, *node.args] if isinstance(func, ast.Attribute) else node.args
    return [part for each in given for part in (each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each])]


def _is_given(name: ast.expr, statement: ast.Assign) -> bool:
    """Whether a statement gives a name its value."""
    return [ast.unparse(each) for each in statement.targets] == [ast.unparse(name)]


def _names_of(statement: ast.Assign) -> set[str]:
    """The names that a statement gives a value."""
    return {each.id for target in statement.targets for each in nodes_in(target) if isinstance(each, ast.Name)}


def _on_line(statement: ast.stmt, line: int) -> Iterator[ast.expr]:
    """The expressions of a statement that a line is one of."""
    found = (each for each in nodes_in(statement) if isinstance(each, ast.expr))
    return (each for each in found if each.lineno <= line <= (each.end_lineno or 0))


def _operator(atom: object) -> str:
    """The operator that a function of PyTorch's is, or a loss, sigmoid or transform; empty for none that is known."""
    if isinstance(atom, Obj):
        if atom.external == SOME_LAYER:
            return "mse_loss"  # or another of them
        is_plain = atom.external.startswith("torch.nn.") and atom.external.endswith(("Loss", ".Sigmoid"))
        layer = table.LAYERS.get(atom.external.rpartition(".")[2], "") if is_plain else ""
        return layer or library_transforms.operator(atom.external)
    return operator_name(atom.name) if isinstance(atom, External) else ""


def _is_of_numbers(atom: object) -> bool:
    """Whether something is a function that gives a number of numbers: `math.sqrt`."""
    return isinstance(atom, External) and (atom.name.startswith("math.") or atom.name == "numpy.sqrt")


def _has_no_weights(atom: object) -> bool:
    return isinstance(atom, External) or (isinstance(atom, Obj) and bool(library_transforms.operator(atom.external)))


def _is_of_project(atom: object) -> bool:
    """Whether something is an object of a class of the project: where it runs none of its code, it runs PyTorch's."""
    return isinstance(atom, Obj) and isinstance(atom.made_of, Class)


def _are_modules(value: Value) -> bool:
    external = [each.external if isinstance(each, Obj) else "" for each in value]
    return bool(external) and all(each and not each.startswith("builtins.") for each in external)


def _putting_in(node: ast.AST) -> tuple[ast.expr | None, list[ast.expr]]:
    """The container that something is put into by a call, an assignment or where it is made, and what that is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PUTTING_IN:
        return node.func.value, node.args
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return node.targets[0].value, [node.value]
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return node, node.elts
    if isinstance(node, ast.Dict):
        return node, node.values
    return (node, [node.elt]) if isinstance(node, (ast.ListComp, ast.SetComp)) else (None, [])


def _held_in(node: ast.expr) -> Iterator[ast.expr]:
    """What is put together to be one value: the items of a tuple or a list, the values of a dictionary."""
    held = node.elts if isinstance(node, (ast.Tuple, ast.List)) else node.values if isinstance(node, ast.Dict) else None
    yield from (node,) if held is None else (each for part in held for each in _held_in(part))


def _is_outside(event: Event) -> bool:
    """Whether something happens where nothing is cast: outside of regions, and of autograd's own functions."""
    context = event.context
    return context is not None and context.cuda.on == OFF and not context.in_gradient


def _is_kernel(event: Event) -> bool:
    """Whether code that is not read is called in a function of autograd's own, which is written for such a kernel."""
    context = event.context
    return context is not None and context.in_gradient and event.why not in table.RESULT


def _is_in_place(node: ast.AST) -> bool:
    """Whether something is a call of a method that changes what it is called on."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr.endswith("_")


def _is_floating(node: ast.expr) -> bool:
    """Whether something is a quotient, or computed with a floating number."""
    if not isinstance(node, ast.BinOp):
        return False
    numbers = (each.value for each in (node.left, node.right) if isinstance(each, ast.Constant))
    return isinstance(node.op, ast.Div) or any(isinstance(each, float) for each in numbers)


def _is_in_sight(unknown: Opaque) -> bool:
    """Whether it would be known of something if it were low: its tensors are followed, or it is data as they came."""
    is_taken = bool(unknown.path) and not any(str(step).endswith("()") for step in unknown.path[1:])
    return unknown.tensor is not None or is_taken


def _is_parameter(code: Code, name: str) -> bool:
    """Whether a name is a parameter of a function, and nothing else in it."""
    is_own = any(each.arg == name for each in code.parameters) and name not in code.bound_again
    stars = [code.node.args.vararg, code.node.args.kwarg] if isinstance(code.node, FUNCTIONS) else []
    return is_own and all(each is None or each.arg != name for each in stars)


def _holds(code: Code, site: Site) -> bool:
    return code.file == site.file and code.site.line <= site.line <= code.site.end_line


def _makes_another(call: ast.Call) -> bool:
    """Whether a call that gives a leaf makes it: `x.requires_grad_()` changes what has a name already."""
    return not (isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_" and _path(call.func.value))


def _path(node: ast.expr) -> bool:
    """Whether an expression is a name, or an attribute of one."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _path(node.value))
