"""A tree prints what LibCST prints."""

from __future__ import annotations

import libcst as cst
import pytest
from amp_migrate.trees.tree import Tree

TEXTS = [
    "",
    "\n",
    "# nothing but this\n",
    "# nothing but this",
    "import os\n",
    "import os",
    "#!/usr/bin/env python\n# -*- coding: latin-1 -*-\n\n'''Docs.'''\n\nx = 1; y = 2\n\n# the end\n\n",
    "import os\r\n\r\nif os.sep:\r\n\tprint(1)\r\n\t# at last\r\n# the end\r\n",
    "def f():\n  return 1\n  # at last\n\n\n@f\nclass A: pass\n# the end",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_module_and_one_made_of_it_are_printed_as_libcst_prints_them(text: str) -> None:
    module = cst.parse_module(text)
    tree = Tree("a.py", module, text)
    line = cst.parse_statement("z = 3", config=module.config_for_parsing)
    for made in (module, module.with_changes(body=[*module.body, line]), module.with_changes(body=module.body[1:])):
        assert tree.printed(made) == made.code
    assert tree.printed() == text
