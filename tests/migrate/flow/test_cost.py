"""What an analysis costs grows with the program, by counters: files that are not needed are not even parsed."""

from __future__ import annotations

from amp_migrate.flow.analysis import Analysis

from .conftest import HEAD, Texts

STEP = """
class Net{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def train{0}(loader):
    model = Net{0}().cuda()
    opt = optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.amp.autocast("cuda"):
            loss = model(x.cuda()).mean()
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
"""


def counted(texts: dict[str, str], focus: list[str]) -> Analysis:
    return Analysis(Texts(texts), focus).run()


def program(steps: int) -> str:
    return HEAD + "".join(STEP.format(each) for each in range(steps))


def test_twice_the_program_is_twice_the_work() -> None:
    small, large = (counted({"a.py": program(steps)}, ["a.py"]) for steps in (8, 16))
    assert large.executed <= 2.2 * small.executed
    assert large.evaluated <= 2.2 * small.evaluated
    assert large.interpreted <= 2.2 * small.interpreted


def test_a_chain_of_calls_costs_what_it_is_long() -> None:
    def chain(length: int) -> Analysis:
        calls = "".join(f"def f{n}(x):\n    return f{n + 1}(x) + f{n + 1}(x)\n\n\n" for n in range(length))
        return counted({"a.py": f"{HEAD}{calls}def f{length}(x):\n    return x\n\n\ny = f0(torch.ones(2))\n"}, ["a.py"])

    short, long = chain(15), chain(30)
    assert long.executed <= 2.2 * short.executed


def test_nested_loops_and_deep_recursion_come_to_an_end() -> None:
    loops = "".join("    " * depth + f"for i{depth} in range(3):\n" for depth in range(6))
    text = f"{HEAD}x = 0\n{loops}{'    ' * 6}x = x + i0 if x else (x, 1)\n"
    assert counted({"a.py": text}, ["a.py"]).executed < 20_000
    ackermann = (
        "def f(m, n):\n    if m == 0:\n        return n + 1\n"
        "    return f(m - 1, f(m, n - 1) if n else 1)\n\n\ny = f(3, 3)\n"
    )
    assert counted({"a.py": HEAD + ackermann}, ["a.py"]).executed < 2_000


def test_files_that_nothing_asks_for_are_not_parsed() -> None:
    main = HEAD + "from lib.used import f\nimport lib.unused\n\n\nx = f()\n"
    texts = {"a.py": main, "lib/__init__.py": "", "lib/used.py": "def f():\n    return 1\n"}
    texts |= {f"lib/other{each}.py": program(3) for each in range(20)} | {"lib/unused.py": program(3)}
    analysis = counted(texts, ["a.py"])
    parsed = {file for file, module in analysis.modules.items() if module is not None}
    assert parsed <= {"a.py", "lib/used.py", "lib/__init__.py"}
    assert analysis.lowered < 20


def test_a_file_is_parsed_once() -> None:
    texts = {
        "a.py": HEAD + "import b\nfrom b import f\nx = f(), b.f()\n",
        "b.py": "from c import g\n\n\ndef f():\n    return g()\n",
    }
    analysis = counted(texts | {"c.py": "def g():\n    return 1\n"}, ["a.py"])
    assert analysis.lowered == sum(text.count("\n") + 1 for text in (*texts.values(), "def g():\n    return 1\n"))
