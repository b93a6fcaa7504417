"""`torch.distributions`: what its objects compute of their parameters, by the operators that their code has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amp_migrate.flow.domain.atoms import (
    NEVER,
    UNKNOWN,
    External,
    Obj,
    Value,
    const,
    join,
    join_all,
    one,
    tensor_of,
    tensors_in,
)
from amp_migrate.flow.domain.tensor import INT, SHAPED, Tensor, made
from amp_migrate.flow.events import A_COARSE_DRAW, Act
from amp_migrate.flow.python.arguments import Arguments
from amp_migrate.flow.python.frame import Frame
from amp_migrate.flow.pytorch import modules, tensors
from amp_migrate.flow.pytorch.operators import operate, take_logarithm
from amp_migrate.tables import operators as table
from amp_migrate.tables.torch_names import DISTRIBUTIONS

DIVERGENCES = frozenset(f"{DISTRIBUTIONS}{name}" for name in ("kl_divergence", "kl.kl_divergence"))
_PARAMETERS = frozenset(
    (
        "concentration concentration0 concentration1 covariance_matrix df high loc logits low precision_matrix probs "
        "rate scale scale_tril temperature"
    ).split()
)
_MOMENTS = frozenset("mean mode stddev variance".split())
_COMPUTING = frozenset("cdf entropy icdf log_prob perplexity rsample sample sample_n".split())
# Those of whose logits, or probabilities, the sum is known: they are normalised where they are made.
_NORMALISED = frozenset("Categorical Multinomial OneHotCategorical OneHotCategoricalStraightThrough".split())
# Those that add noise in their parameters' precision, and whose density falls with a square.
_NORMAL = frozenset("LowRankMultivariateNormal MultivariateNormal Normal".split())
# Those that draw whole numbers.
_DISCRETE = _NORMALISED | frozenset("Bernoulli Binomial Geometric NegativeBinomial Poisson".split())
_LOGITS = "logits"
_GIVEN, _TOGETHER, _FIRST = "<given>", "<together>", "<first>"


def is_distribution(name: str) -> bool:
    """Whether a full name is that of a class of distributions."""
    last = name.rpartition(".")[2]
    return name.startswith(DISTRIBUTIONS) and last[:1].isupper() and not last.endswith("Transform")


def make(frame: Frame, name: str, args: Arguments, node: ast.AST) -> Value:
    """A distribution is made: its parameters are broadcast to one shape, and logits are normalised there."""
    owner = Obj(frame.site(node), frame.context_of_objects, External(name))
    kind = _kind(owner)
    inner = args.get(0, "base_distribution") if kind == "Independent" else None
    if inner and all(isinstance(each, Obj) and _kind(each) in _NORMAL for each in inner):
        return inner
    modules.hold_arguments(frame, owner, args)
    matrix = args.get(1, "covariance_matrix") or args.keywords.get("precision_matrix")
    if kind == "MultivariateNormal" and matrix and tensor_of(matrix) is not None:
        operate(frame, "linalg.cholesky", [matrix], node)
    given = [each for value in args.all() for each in _parameters(frame, value)]
    if given:
        together = operate(frame, "add", given, node)
        if kind in _NORMALISED:
            by = "sub" if _LOGITS in args.keywords else "div"
            together = operate(frame, by, [together, operate(frame, "log_softmax", [together], node)], node)
        elif kind not in _NORMAL:
            together = _perhaps_widened(frame, [together], node)
        # A number becomes a tensor like the others, of which nothing has a gradient.
        numbers = [_cut(frame, given[0]) for value in args.all() if tensor_of(value) is None]
        frame.write(owner, _GIVEN, join_all([*given, *numbers]), strong=False)
        frame.write(owner, _TOGETHER, together, strong=False)
        frame.write(owner, _FIRST, given[0], strong=False)
    return one(owner)


def attribute(frame: Frame, owner: Obj, name: str, node: ast.AST) -> Value:
    """What a distribution shows of its parameters, as they are or in another form; nothing for a method."""
    if not is_distribution(owner.external) or name not in _PARAMETERS | _MOMENTS:
        return NEVER
    given = frame.read(owner, _GIVEN)
    if not given or not (name in _PARAMETERS or _kind(owner) in _NORMAL):
        return modules.unknown_result(frame, NEVER, Arguments([given]), node)
    is_computed = name in ("stddev", "variance") or _kind(owner) in table.OF_PROBABILITIES
    return _perhaps_widened(frame, [given], node) if is_computed else given


def method(frame: Frame, owner: Obj, name: str, args: Arguments, node: ast.AST) -> Value:
    """What a method of a distribution gives that computes something of its parameters; else nothing."""
    if not is_distribution(owner.external) or name not in _COMPUTING:
        return NEVER
    together = frame.read(owner, _TOGETHER)
    parameters, kind = tensor_of(together), _kind(owner)
    if parameters is None:
        return NEVER
    if name in ("rsample", "sample", "sample_n"):
        _note_drawn_by(frame, owner, node)
        if kind == "Categorical":
            return one(made(INT, SHAPED, parameters.place))
        if kind == "Normal" and name != "rsample":  # by `torch.normal`, whose result is as its mean
            together = operate(frame, "normal", [frame.read(owner, _FIRST), together], node)
        found = together if kind in _NORMAL else _perhaps_widened(frame, [together], node)
        return found if name == "rsample" else _cut(frame, found)
    if name in ("log_prob", "entropy") and kind in table.OF_PROBABILITIES:
        place = table.OF_PROBABILITIES[kind]
        take_logarithm(frame, tensors_in(frame.read(owner, "<probs>") or frame.read(owner, f"<{place}>")), node)
    if name == "log_prob" and kind in _NORMAL:
        return _squared(frame, [*args.positional[:1], together], node)
    if name == "log_prob" and kind in _NORMALISED and frame.read(owner, f"<{_LOGITS}>"):
        return together
    if name in ("log_prob", "entropy") and kind in _NORMALISED:
        return operate(frame, "log_softmax", [together], node)
    if name == "entropy" and kind in _NORMAL:
        return operate(frame, "log_softmax", [frame.read(owner, _GIVEN)], node)
    return _perhaps_widened(frame, [*args.positional[:1], together], node)


def divergence(frame: Frame, args: Arguments, node: ast.AST) -> Value:
    """`kl_divergence` of two distributions."""
    given = [each for value in args.all() for each in _parameters(frame, value)]
    owners = [each for value in args.all() for each in value]
    are_normal = all(isinstance(each, Obj) and _kind(each) in _NORMAL for each in owners)
    return (_squared if are_normal else _perhaps_widened)(frame, given, node) if given else UNKNOWN


def note_drawn(frame: Frame, first: Tensor, node: ast.AST, by: Value = NEVER) -> None:
    """Noise is drawn in the precision of the first parameter, by a distribution or without one."""
    if first.may_be_low and first.regions:
        frame.analysis.event(frame, Act.RISK, node, tensor=first, subject=by, why=A_COARSE_DRAW)


def _note_drawn_by(frame: Frame, owner: Obj, node: ast.AST) -> None:
    """A distribution draws, or what it is made of."""
    bases = [each for word in ("0", "base_distribution", "base_dist") for each in frame.read(owner, f"<{word}>")]
    made_of = [each for each in bases if isinstance(each, Obj) and is_distribution(each.external)]
    for each in made_of:
        _note_drawn_by(frame, each, node)
    first = tensor_of(frame.read(owner, _FIRST))
    if not made_of and _kind(owner) not in _DISCRETE and first is not None:
        note_drawn(frame, first, node, one(owner))


def _kind(owner: Obj) -> str:
    return owner.external.rpartition(".")[2]


def _parameters(frame: Frame, value: Value) -> Iterator[Value]:
    """The tensors in what a distribution is made of: parameters, or other distributions."""
    if tensor_of(value) is not None:
        yield value
    for each in value:
        if isinstance(each, Obj) and is_distribution(each.external):
            yield from filter(None, [frame.read(each, _TOGETHER)])


def _cut(frame: Frame, value: Value) -> Value:
    return frozenset(tensors.detached(frame, each) for each in tensors_in(value))


def _squared(frame: Frame, terms: list[Value], node: ast.AST) -> Value:
    return operate(frame, "pow", [operate(frame, "sub", terms, node), const(2)], node)


def _perhaps_widened(frame: Frame, terms: list[Value], node: ast.AST) -> Value:
    """What may be computed with exponentials, logarithms or sums, which autocast widens, and may be without."""
    together = operate(frame, "add", terms, node)
    return join(together, operate(frame, "log_softmax", [together], node))
