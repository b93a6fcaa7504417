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
