"""The same script in the shapes that people give to their programs: a function, a class, a generator, several files."""

from __future__ import annotations

import ast
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from random_programs.mutations import goes_backward, names, statements

Files: TypeAlias = "dict[str, str]"


def shape(text: str, rng: Random) -> Files:
    """The files of a program that does what a flat script does; `train.py` is the one to run."""
    module = ast.parse(text)
    rng.choice(SHAPES)(module, rng)
    files = {"train.py": module}
    if rng.random() < 0.3:
        _split(files, rng)
    return {name: ast.unparse(ast.fix_missing_locations(each)) + "\n" for name, each in files.items()}


def flat(module: ast.Module, rng: Random) -> None:
    """As it is."""


def in_main(module: ast.Module, rng: Random) -> None:
    """All of it in `main()`, classes and functions that need nothing of it apart."""
    kept, moved = _apart(module)
    function = ast.parse("def main():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = moved
    guard = "if __name__ == '__main__':\n    main()" if rng.random() < 0.5 else "main()"
    module.body = [*kept, function, *statements(guard)]


def as_a_generator(module: ast.Module, rng: Random) -> None:
    """The loop in a generator that gives each loss."""
    kept, moved = _apart(module)
    for each in ast.walk(ast.Module(moved, [])):
        if (
            isinstance(each, ast.For)
            and goes_backward(each)
            and not any(
                isinstance(inner, ast.For) and goes_backward(inner) for inner in ast.walk(each) if inner is not each
            )
        ):
            each.body += statements("yield i")
    function = ast.parse("def training():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = moved
    use = rng.choice(("for step in training():\n    print('step', step)", "print(list(training()))"))
    module.body = [*kept, function, *statements(use)]


def asynchronous(module: ast.Module, rng: Random) -> None:
    """The loop in a coroutine."""
    kept, moved = _apart(module)
    for each in ast.walk(ast.Module(moved, [])):
        if isinstance(each, ast.For) and goes_backward(each):
            pause = ast.parse("async def f():\n    await asyncio.sleep(0)").body[0]
            assert isinstance(pause, ast.AsyncFunctionDef)
            each.body.insert(rng.randrange(len(each.body) + 1), pause.body[0])
    function = ast.parse("async def main():\n    pass").body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    function.body = moved
    module.body = [*kept, function, *statements("asyncio.run(main())")]


def as_a_class(module: ast.Module, rng: Random) -> None:
    """What the script makes in `__init__`, its loop in a method, and its functions methods too."""
    kept, moved = _apart(module)
    place = next((at for at, each in enumerate(moved) if isinstance(each, ast.For) and goes_backward(each)), None)
    if place is None:
        return
    made, rest = moved[:place], moved[place:]
    own = {each for each in names(made, ast.Store) if each != "_"} | {
        each.name for each in made if isinstance(each, ast.FunctionDef)
    }
    methods = [each for each in made if isinstance(each, ast.FunctionDef)]
    if any(argument.arg in own for each in methods for argument in [*each.args.args, *each.args.kwonlyargs]):
        return
    made = [each for each in made if not isinstance(each, ast.FunctionDef)]
    trainer = ast.parse(
        "class Trainer:\n    def __init__(self):\n        pass\n\n    def fit(self):\n        pass"
    ).body[0]
    assert isinstance(trainer, ast.ClassDef)
    init, fit = trainer.body
    assert isinstance(init, ast.FunctionDef)
    assert isinstance(fit, ast.FunctionDef)
    mine = _Mine(own)
    init.body = [mine.visit(each) for each in made] or init.body
    fit.body = [mine.visit(each) for each in rest]
    for each in methods:
        each.body = [mine.visit(inner) for inner in each.body]
        each.args.args.insert(0, ast.arg("self"))
        trainer.body.insert(1, each)
    use = rng.choice(("Trainer().fit()", "trainer = Trainer()\ntrainer.fit()"))
    module.body = [*kept, trainer, *statements(use)]


class _Mine(ast.NodeTransformer):
    """Names that become attributes of `self`."""

    def __init__(self, own: set[str]) -> None:
        self._own = own

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, node.ctx) if node.id in self._own else node


def _apart(module: ast.Module) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Imports and classes, and all the rest."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef)
    kept: list[ast.stmt] = [each for each in module.body if isinstance(each, kinds)]
    return kept, [each for each in module.body if not isinstance(each, kinds)]


def _split(files: dict[str, ast.Module], rng: Random) -> None:
    """Some classes and functions in a file of their own."""
    module = files["train.py"]
    imports = [each for each in module.body if isinstance(each, (ast.Import, ast.ImportFrom))]
    movable = [
        each for each in module.body if isinstance(each, (ast.ClassDef, ast.FunctionDef)) and each.name != "main"
    ]
    moved = [each for each in movable if rng.random() < 0.7]
    if not moved:
        return
    module.body = [each for each in module.body if each not in moved]
    files["parts.py"] = ast.Module([*imports, *moved], [])
    place = len(imports)
    if rng.random() < 0.7:
        brought = f"from parts import {', '.join(each.name for each in moved)}"
    else:
        brought = "import parts"
        taken = {each.name for each in moved}
        _Qualified(taken).visit(module)
    module.body[place:place] = statements(brought)


class _Qualified(ast.NodeTransformer):
    """Names that are attributes of the module `parts` now."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Attribute(ast.Name("parts", ast.Load()), node.id, node.ctx) if node.id in self._taken else node


Shape: TypeAlias = "Callable[[ast.Module, Random], None]"
SHAPES: tuple[Shape, ...] = (flat, flat, in_main, in_main, as_a_class, as_a_generator, asynchronous)
