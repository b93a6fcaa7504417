"""What a name stands for: one thing, or nothing that anybody may build on."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest
from amp_migrate.analysis.files import File

Parse = Callable[[str], File]


def marked(file: File) -> cst.BaseExpression:
    """The argument of the last `here(...)`."""
    call = [call for call in file.calls if isinstance(call.func, cst.Name) and call.func.value == "here"][-1]
    return call.args[0].value


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("import torch\nhere(torch)", "torch"),
        ("import torch\nhere(torch.cuda.amp)", "torch.cuda.amp"),
        ("import torch.cuda.amp\nhere(torch.optim)", "torch.optim"),
        ("import torch.cuda.amp as amp\nhere(amp.autocast)", "torch.cuda.amp.autocast"),
        ("import torch as th, os\nhere(th.amp)", "torch.amp"),
        ("from torch import amp\nhere(amp.GradScaler)", "torch.amp.GradScaler"),
        ("from torch import (\n    amp as a,\n    nn,\n)\nhere(nn)", "torch.nn"),
        ("from . import engine\nhere(engine.train)", ".engine.train"),
        ("from ..lib import f\nhere(f)", "..lib.f"),
        ("import torch\nt = torch.cuda\nhere(t.amp)", "torch.cuda.amp"),
        ("import torch\na, b = torch.nn, torch.optim\nhere(b.SGD)", "torch.optim.SGD"),
        ("import torch\n\ndef f():\n    here(torch.nn)", "torch.nn"),
        ("def f():\n    import torch\n    here(torch.nn)", "torch.nn"),
        ("import torch\n\nclass A:\n    torch = None\n    def f(self):\n        here(torch.nn)", "torch.nn"),
        ("import torch\nx = [torch for torch in y]\nhere(torch.nn)", "torch.nn"),
        ("import torch\n\nf = lambda torch: 0\nhere(torch.nn)", "torch.nn"),
        ("if x:\n    import torch\nelse:\n    import torch\nhere(torch)", "torch"),
        ("import torch\n\ndef f():\n    global torch\n    here(torch)", "torch"),
        ("def f():\n    global torch\n    import torch\n\ndef g():\n    here(torch)", "torch"),
        ("import torch\n\n@here(torch.amp)\ndef f(torch): ...", "torch.amp"),
        ("import torch\n\ndef f(torch=here(torch.amp)): ...", ""),
        ("from apex import amp\nimport torch.cuda.amp as amp\nhere(amp)", "torch.cuda.amp"),
        ("try:\n    from a import b\nexcept E: ...\nfrom c import b\n\ndef f():\n    here(b)", "c.b"),
    ],
)
def test_name_with_one_meaning(parse: Parse, text: str, full: str) -> None:
    file = parse(text)
    assert file.names.full(marked(file)) == full


@pytest.mark.parametrize(
    "text",
    [
        "from a import b\n\ndef f():\n    here(b)\n\nfrom c import b",  # a call above the second may see the first
        "from a import b\nif b:\n    from c import b\nhere(b)",
        "from a import b\nif x:\n    from c import b\nhere(b)",
        "def f():\n    global b\n    from a import b\n\nfrom c import b\nhere(b)",
        "here(torch)",
        "from torch import *\nhere(amp)",
        "import torch\ntorch = None\nhere(torch)",
        "import torch\nfor torch in x: ...\nhere(torch)",
        "import torch\nwith x as torch: ...\nhere(torch)",
        "import torch\n(torch := 1)\nhere(torch)",
        "import torch\n\ndef f(torch):\n    here(torch.nn)",
        "import torch\n\ndef f(*torch):\n    here(torch.nn)",
        "import torch\n\ndef f(**torch):\n    here(torch.nn)",
        "import torch\n\ndef f():\n    here(torch.nn)\n    torch = 1",
        "import torch\nf = lambda torch: here(torch.nn)",
        "import torch\nx = [here(torch.nn) for torch in y]",
        "import torch\n\nclass A:\n    torch = None\n    here(torch.nn)",
        "import torch\n\nclass torch: ...\nhere(torch)",
        "import torch\n\ndef torch(): ...\nhere(torch)",
        "if x:\n    import torch\nelse:\n    import jax as torch\nhere(torch)",
        "try:\n    import torch\nexcept ImportError:\n    torch = None\nhere(torch)",
        "try: ...\nexcept E as torch: ...\nimport torch\nhere(torch)",
        "import torch\nx = torch\nx = 2\nhere(x)",
        "a = b\nb = a\nhere(a)",
        "import torch\n\ndef f(m):\n    try: ...\n    except E:\n        m = m.module\n    here(m)",
        "import torch\ntry: ...\nexcept E:\n    a = b.x\n    b = a.y\nhere(a)",
        "import torch\nhere(torch().nn)",
        "import torch\nhere(torch[0].nn)",
        "import torch\ntorch += 1\nhere(torch)",
        "def f():\n    import torch\n\nhere(torch)",
    ],
)
def test_name_in_doubt_is_unknown(parse: Parse, text: str) -> None:
    file = parse(text)
    assert file.names.full(marked(file)) == ""


TRIED = "import torch\ntry:\n    {}\nexcept ImportError:\n    {}\nhere(autocast)"
OLD = "from torch.cuda.amp import autocast"


EITHER = "import torch\nif x:\n    import torch.cuda.amp as amp\nelse:\n    from apex import amp\n"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("amp.autocast", {"torch.cuda.amp.autocast"}),
        ("amp.GradScaler", {"torch.cuda.amp.GradScaler"}),
        ("amp.scale_loss", {"apex.amp.scale_loss"}),
        ("amp.register_half_function", {"apex.amp.register_half_function"}),
        ("amp.what_both_may_have", {"torch.cuda.amp.what_both_may_have", "apex.amp.what_both_may_have"}),
        ("amp", {"torch.cuda.amp", "apex.amp"}),
    ],
)
def test_amp_that_is_one_of_two_is_the_one_that_has_what_is_asked(parse: Parse, asked: str, meant: set[str]) -> None:
    file = parse(f"{EITHER}here({asked})")
    assert file.names.meanings(marked(file)) == meant


BELOW = "torch.__version__ < '1.6'"


@pytest.mark.parametrize(
    ("text", "is_dead"),
    [
        (f"if {BELOW}:\n    here(x)", True),
        (f"FLAG = False\nif {BELOW}:\n    FLAG = True\ndef f():\n    if FLAG:\n        here(x)", True),
        (f"FLAG = True\nif not {BELOW}:\n    FLAG = False\ndef f():\n    if FLAG and y:\n        here(x)", True),
        (f"if y:\n    FLAG = {BELOW}\n    if FLAG:\n        here(x)\nelse:\n    FLAG = True", True),
        (f"FLAG = False\nif {BELOW}:\n    FLAG = True\nif FLAG:\n    z = 1\nelse:\n    here(x)", False),
        ("FLAG = False\nif FLAG:\n    here(x)", False),  # the user's own: to be set by hand
        (f"FLAG = False\nif {BELOW}:\n    FLAG = y\nif FLAG:\n    here(x)", True),
        (f"FLAG = False\nif not {BELOW}:\n    FLAG = y\nif FLAG:\n    here(x)", False),
        (f"FLAG = {BELOW}\nif y:\n    FLAG = True\nif FLAG:\n    here(x)", False),
        (f"FLAG = {BELOW}\ndef f():\n    if FLAG:\n        here(x)\nFLAG = True", False),
        (f"FLAG = {BELOW}\nif FLAG:\n    here(x)\nFLAG = True", True),
        (f"FLAG = {BELOW}\nfor y in z:\n    if FLAG:\n        here(x)\n    FLAG = True", False),
        (f"FLAG = {BELOW}\ndef g():\n    global FLAG\n    FLAG = True\nif FLAG:\n    here(x)", False),
        (f"def g():\n    FLAG = {BELOW}\nif FLAG:\n    here(x)", False),
        (f"FLAG = {BELOW}\nFLAG |= y\nif FLAG:\n    here(x)", False),
    ],
)
def test_flag_that_the_version_sets_is_known_where_nothing_else_may_have(
    parse: Parse, text: str, is_dead: bool
) -> None:
    file = parse(f"import torch\n{text}\n")
    assert file.names.is_never_run(marked(file)) is is_dead


@pytest.mark.parametrize("stand_in", ["autocast = None", "class autocast: ...", "from mine import autocast"])
def test_stand_in_for_what_torch_has_counts_for_nothing(parse: Parse, stand_in: str) -> None:
    file = parse(TRIED.format(OLD, stand_in))
    assert file.names.full(marked(file)) == "torch.cuda.amp.autocast"


@pytest.mark.parametrize(
    ("tried", "handled"),
    [
        ("from mine import autocast", OLD),  # what is tried may be there
        ("from mine import autocast", f"try:\n        {OLD}\n    except ImportError:\n        autocast = None"),
        (f"import mine; {OLD}", "autocast = None"),  # the other import may fail
        (f"from . import mine; {OLD}", "autocast = None"),
    ],
)
def test_stand_in_that_may_be_taken_counts(parse: Parse, tried: str, handled: str) -> None:
    file = parse(TRIED.format(tried, handled))
    assert len(file.names.meanings(marked(file))) == 2


@pytest.mark.parametrize(
    ("text", "full", "local"),
    [
        ("import torch\nhere(1)", "torch.amp.autocast", "torch.amp.autocast"),
        ("import torch as th\nhere(1)", "torch.amp.autocast", "th.amp.autocast"),
        ("from torch import amp\nhere(1)", "torch.amp.autocast", "amp.autocast"),
        ("from torch.amp import autocast as cast\nhere(1)", "torch.amp.autocast", "cast"),
        ("import torch\nfrom torch import amp\nhere(1)", "torch.amp.autocast", "amp.autocast"),
        ("from torch import nn\nhere(1)", "torch.amp.autocast", None),
        ("import torch\n\ndef f(torch):\n    here(1)", "torch.amp", None),
        ("import torch\nimport torch as th\n\ndef f(torch):\n    here(1)", "torch.amp", "th.amp"),
        ("def f():\n    import torch\n\nhere(1)", "torch.amp", None),
        ("def f():\n    import torch\n    here(1)", "torch.amp", "torch.amp"),
        ("class A:\n    import torch\n    def f(self):\n        here(1)", "torch.amp", None),
    ],
)
def test_full_name_is_written_with_what_is_bound_there(parse: Parse, text: str, full: str, local: str | None) -> None:
    file = parse(text)
    assert file.spelling.local(full, marked(file)) == local


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("def f(x):\n    if x:\n        here(y)\n    else:\n        import torch.nn as nn", None),
        ("def f(x):\n    if x:\n        import torch.nn as nn\n        here(y)", "nn"),
        ("def f(x):\n    here(y)\n    from torch import nn", None),
        ("def f(x):\n    from torch import nn\n    return here(y)", "nn"),
        ("if TYPE_CHECKING:\n    from torch import nn\n\ndef f():\n    here(y)", None),
        ("if x: from torch import nn\nhere(y)", None),
        ("try:\n    from torch import nn\nexcept ImportError:\n    nn = None\nhere(y)", "nn"),
        ("def f():\n    here(y)\n\nfrom torch import nn", "nn"),
        ("for x in y:\n    from torch import nn\nhere(y)", None),
    ],
)
def test_what_an_import_brings_is_there_only_once_it_has_run(parse: Parse, text: str, local: str | None) -> None:
    file = parse(text)
    assert file.spelling.local("torch.nn", marked(file)) == local
