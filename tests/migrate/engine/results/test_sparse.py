"""A product of what is sparse has few kernels in half precision: a step that comes to one in its region stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from amp_migrate.engine.migrate import migrate, migrate_text
from amp_migrate.settings import Dtype, Settings

STEP = """\
import numpy as np
import torch
from torch import nn
from elsewhere import aggregate, features, indices, loader, normalized, values

{made}
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
CONVERTED = """\
def converted(matrix):
    matrix = matrix.tocoo().astype(np.float32)
    at = torch.from_numpy(np.vstack((matrix.row, matrix.col)).astype(np.int64))
    return torch.sparse.FloatTensor(at, torch.from_numpy(matrix.data), torch.Size(matrix.shape))


graph = converted(features).cuda()"""
HELD = """\
class Graph(nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.register_buffer("graph", graph)

    def forward(self, x):
        return self.graph @ x


layer = Graph(features.to_sparse()).cuda()"""
DATASET = """\
class Rows(torch.utils.data.Dataset):
    def __getitem__(self, at):
        return {row}


loader = torch.utils.data.DataLoader(Rows(){more})"""
COLLATE = """\
def collate(rows):
    return torch.stack(rows).to_sparse()


"""


def why(made: str, loss: str, dtype: Dtype = Dtype.FP16) -> str:
    """What a step is left for; empty where it moves."""
    plan = migrate_text(STEP.format(made=made, loss=loss), Settings(dtype=dtype))
    left = [each.message.partition("half precision: ")[2] for each in plan.findings if each.code == "AMP590"]
    assert ("autocast" in plan.after) is not bool(left)
    return "".join(left)


@pytest.mark.parametrize("dtype", [Dtype.FP16, Dtype.BF16, Dtype.AUTO])
@pytest.mark.parametrize(
    "made",
    [
        "graph = features.to_sparse()",
        "graph = features.to_sparse_csr()",
        "graph = torch.sparse_coo_tensor(indices, values, (8, 8)).coalesce()",
        "graph = torch.sparse_csr_tensor(indices, indices, values).cuda().t()",
        "graph = normalized(torch.sparse_coo_tensor(indices, values))",
        "graph = features.to_sparse() if len(indices) else features",
        "graph = {'all': [features.to_sparse()]}['all'][0]",
        CONVERTED,
    ],
)
def test_what_is_sparse_keeps_a_step_wherever_it_was_made(made: str, dtype: Dtype) -> None:
    assert why(made, "(graph @ model(x)).mean()", dtype) == "matmul of a sparse tensor (line " + (
        f"{11 + made.count(chr(10))})"
    )


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        ("model(graph).mean()", "linear of a sparse tensor"),
        ("torch.mm(graph, model(x)).mean()", "mm of a sparse tensor"),
        ("torch.sparse.mm(graph, model(x)).mean()", "sparse.mm"),
        ("(model(x) + torch.spmm(graph, x)).mean()", "spmm"),
    ],
)
def test_what_computes_with_it_is_said(loss: str, what: str) -> None:
    assert why("graph = features.to_sparse().cuda()", loss) == f"{what} (line 11)"


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("graph = features.to_sparse().cuda().to_dense()", "(graph @ model(x)).mean()"),
        ("graph = features.to_sparse()", "(graph.to_dense() @ model(x)).mean()"),
        ("graph = features.to_sparse()\nwhole = graph.cuda()\ngraph = whole.to_dense()", "(graph @ model(x)).mean()"),
        # It is computed in float32 before the step.
        ("smooth = torch.sparse.mm(features.to_sparse(), features)", "model(smooth).mean()"),
        ("smooth = torch.sparse.mm(indices, values).to_dense()", "model(smooth).mean()"),
        ("known = features.to_sparse()._values()", "model(known).mean()"),
        # What nobody has read gets float32, and is called without autocast.
        ("graph = features.to_sparse().cuda()", "aggregate(model(x), graph).mean()"),
        ("graph = features.to_sparse().cuda()", "(graph * model(x).float()).to_dense().mean()"),
        ("graph = features.to_sparse()", "model(x).mean()"),
        (DATASET.format(row="features[at]", more=""), "model(x.cuda()).mean()"),
    ],
)
def test_what_is_dense_where_it_is_multiplied_keeps_none(made: str, loss: str) -> None:
    assert not why(made, loss)


def test_a_buffer_that_is_sparse_keeps_a_step() -> None:
    assert why(HELD, "layer(model(x)).mean()").startswith("matmul of a sparse tensor")


@pytest.mark.parametrize(
    "made",
    [
        DATASET.format(row="features[at].to_sparse()", more=""),
        COLLATE + DATASET.format(row="features[at]", more=", collate_fn=collate"),
    ],
)
def test_a_batch_that_is_sparse_keeps_a_step(made: str) -> None:
    assert why(made, "model(x.cuda()).mean()").startswith("linear of a sparse tensor")


@pytest.mark.parametrize(
    "product", ["torch.spmm(a, x)", "torch.sparse_csr_tensor(*a) @ x", "a.to_sparse_coo() @ x", "torch.sparse.mm(a, x)"]
)
def test_a_layer_of_another_file_keeps_the_steps_that_run_it(tmp_path: Path, product: str) -> None:
    (tmp_path / "layers.py").write_text(
        f"import torch\n\n\nclass Graph(torch.nn.Module):\n    def forward(self, a, x):\n        return {product}\n"
    )
    own = STEP.format(made="layer = Graph()", loss="layer(features, model(x)).mean()")
    (tmp_path / "train.py").write_text(own.replace("import numpy as np", "from layers import Graph"))
    (tmp_path / "other.py").write_text(STEP.format(made="from layers import Graph", loss="model(x).mean()"))
    found = migrate([tmp_path], Settings()).findings
    assert [(Path(each.path).name, each.code) for each in found] == [("other.py", "AMP501"), ("train.py", "AMP590")]
    assert "(layers.py:6)" in found[1].message
