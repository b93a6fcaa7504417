"""What regions make low, what that meets, and what is unsafe in half precision."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
from amp_migrate.flow.domain.atoms import TRUTHS, Opaque, const
from amp_migrate.flow.domain.tensor import BF16, CUT, F16, F32, F64, FLOWS, INT, Tensor
from amp_migrate.flow.events import A_ROUNDED_PROBABILITY, A_RUNNING_BUFFER, OF_DISTANCE, OF_ITSELF, Act
from amp_migrate.flow.questions import Questions, faults

from .moved_texts import migrated

Tell = Callable[..., Any]
MLP = "model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 8)).cuda()\n"


def moved(told: Tell, text: str, *, cache: bool = True, **others: str) -> Any:
    """What is told of a float32 text whose marked lines stand in regions."""
    return told(migrated(dedent(text).removeprefix("\n"), cache=cache), **others)


def precision(answer: Any, name: str) -> int:
    (tensor,) = answer.value(name)
    found: int = tensor.precision
    return found


CACHED = (
    "def scst(model, x, y):\n    with torch.no_grad():\n"
    "        base = F.mse_loss(model(x), y)\n    return F.mse_loss(model(x), y) - base\n\n\n"
    + MLP
    + "x = torch.randn(16, 8).cuda()\nloss = scst(model, x, x)  # region\n"
)


def test_a_weight_used_without_and_with_gradients_in_one_region(told: Tell) -> None:
    answer = moved(told, CACHED)
    assert answer.lines(Act.WEIGHT_CAST) == [4]
    assert moved(told, CACHED, cache=False).lines(Act.WEIGHT_CAST) == []


def test_a_norm_of_apex_may_give_what_a_region_computes_in(told: Tell) -> None:
    text = (
        "import apex\nnorm = apex.normalization.FusedLayerNorm(8).cuda()\nx = torch.randn(2, 8).cuda()\n"
        "low = norm(x)  # region\nplain = norm(x)\n"
    )
    answer = moved(told, text)
    assert (precision(answer, "low"), precision(answer, "plain")) == (F16 | F32, F32)


@pytest.mark.parametrize("asked", ["x.is_floating_point()", "torch.is_floating_point(x)"])
def test_what_has_floating_point_numbers_as_a_test_says_is_narrowed_to_these(told: Tell, asked: str) -> None:
    given = "x = F.relu(load() @ load()) if load() else torch.ones(2).argmax()  # region\n"
    answer = moved(told, f"{given}y = x.float() if {asked} else x\nz = x if not {asked} else None\nw = x\n")
    assert {each.precision for each in answer.value("y")} == {F32 | INT}
    assert [each.precision for each in answer.value("z") if isinstance(each, Tensor)] == [INT]
    assert precision(answer, "w") == F16 | INT


def test_what_a_region_multiplies_by_a_sign_is_tensors_whoever_made_them(told: Tell) -> None:
    text = "a, b = load(), load()\nlow = F.relu(a @ b) * 2  # region\nany = F.relu(a @ b) * 2\n"
    answer = moved(told, text)
    assert (precision(answer, "low"), precision(answer, "any") & F32) == (F16, 0)


@pytest.mark.parametrize("owner", ["x", "x.features", "lib.load(x)", "lib.load(x)[0]"])
@pytest.mark.parametrize(
    "asked",
    "shape[1] size()[1] size(1) stride()[0] ndim dim() numel() nbytes is_cuda requires_grad is_contiguous()".split(),
)
def test_what_something_unknown_is_asked_for_that_is_no_tensor_has_no_precision(
    told: Tell, owner: str, asked: str
) -> None:
    answer = moved(told, f"def f(x, lib):\n    size = {owner}.{asked}  # region\n    twice = size * 2  # region")
    values = {each for name in ("size", "twice") for each in answer.value(name)}
    assert values
    assert not any(isinstance(each, (Opaque, Tensor)) for each in values)


def test_regions_inside_the_callee_keep_no_cast_too_long(told: Tell) -> None:
    text = CACHED.replace("  # region", "").replace("model(x), y)\n    return", "model(x), y)  # region\n    return")
    assert moved(told, text.replace("y) - base", "y) - base  # region")).lines(Act.WEIGHT_CAST) == []


def test_a_module_that_runs_itself_without_gradients_first(told: Tell) -> None:
    answer = moved(
        told,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.mlp = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))

            def forward(self, x):
                with torch.no_grad():
                    x = x - 0.1 * self.mlp(x)
                return self.mlp(x)


        model = Net().cuda()
        out = model(torch.randn(4, 8).cuda())  # region
        """,
    )
    assert answer.lines(Act.WEIGHT_CAST) == [9]


def test_one_call_takes_one_of_two_ways_and_two_calls_take_both(told: Tell) -> None:
    text = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = nn.Linear(8, 8)

            def forward(self, x, back):
                if back:
                    with torch.no_grad():
                        return x + self.f(x)
                return x - self.f(x)


        def run(flag):
            net = Net().cuda()
            x = torch.randn(4, 8).cuda()
            out = net(x, flag)  # region
            more = net(x, flag){marker}


        run(len("x") > 4)
        """
    assert moved(told, text.format(marker="")).lines(Act.WEIGHT_CAST) == []
    assert moved(told, text.format(marker="  # region")).lines(Act.WEIGHT_CAST) == [10]


@pytest.mark.parametrize("tasks", [4, 24])
def test_what_runs_for_callers_with_and_without_gradients_is_of_two_regions(
    told: Tell, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amp_migrate.flow.analysis._MOST_TASKS", tasks)
    text = """
        def made():
            return nn.Linear(8, 8)


        class First(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = made()

            def forward(self, x):
                return x + self.f(x)


        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.f = made()

            def forward(self, x):
                return x - self.f(x)


        net = nn.Sequential(First(), Block(), Block(), Block(), Block(), Block(), Block(), First()).cuda()
        x = torch.randn(4, 8).cuda()


        {}
        """
    apart = "out = net(x)  # region\n        with torch.no_grad():\n            base = net(x)  # region"
    assert moved(told, text.format(apart)).lines(Act.WEIGHT_CAST) == []
    both = "def both(x):\n            with torch.no_grad():\n                base = net(x)\n            "
    both += "return net(x) - base\n\n\n        out = both(x)  # region"
    assert moved(told, text.format(both)).lines(Act.WEIGHT_CAST) == [11, 20]


def test_a_running_buffer_of_products(told: Tell) -> None:
    answer = moved(
        told,
        """
        class Quantize(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("embed", torch.randn(4, 8))

            def forward(self, x):
                dist = x.pow(2).sum(1, keepdim=True) - 2 * x @ self.embed
                onehot = F.one_hot(dist.argmin(1), 8).type(x.dtype)
                self.embed.data.mul_(0.99).add_(x.t() @ onehot, alpha=0.01)
                return F.embedding(dist.argmin(1), self.embed.t())


        model = nn.Sequential(nn.Linear(3, 4), Quantize()).cuda()
        out = model(torch.rand(16, 3).cuda())  # region
        """,
    )
    assert {(answer.line(e.site), e.why) for e in answer.events(Act.RISK)} == {
        (7, OF_DISTANCE),
        (7, "a buffer is multiplied"),
        (9, "a running buffer is updated from products"),
    }


def test_what_a_constructor_makes_of_products_is_no_running_buffer(told: Tell) -> None:
    text = """
        class Filter(nn.Module):
            def __init__(self):
                super().__init__()
                kernel = torch.eye(9).cuda() @ torch.ones(9, 1).cuda()
                self.weights = nn.Parameter(kernel, requires_grad=False)
                {method}

            def forward(self, x):
                {called}
                return F.conv2d(x, self.weights.view(1, 1, 3, 3))


        def out(x):
            return Filter().cuda()(x)


        for step in range(3):
            y = out(torch.rand(1, 1, 8, 8).cuda())  # region
        """
    updating = "self.weights = nn.Parameter(torch.eye(9).cuda() @ self.weights, requires_grad=False)"
    for method, called, is_told in (("", "", False), ("", updating, True), (updating, "", False)):
        answer = moved(told, text.format(method=method, called=called))
        found = {each.why for each in answer.events(Act.RISK) if each.seen_by}
        assert (A_RUNNING_BUFFER in found) is is_told, (method, called)


def test_what_is_read_at_a_buffer_is_no_buffer(told: Tell) -> None:
    answer = moved(
        told,
        """
        class Warp(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("inverse", torch.linalg.inv(torch.eye(8) + 0.1))
                self.register_buffer("scale", torch.tensor(0.5))

            def forward(self, x, points):
                grid = torch.bmm(self.inverse.expand(len(x), 8, 8), points)
                return F.grid_sample(x, grid.reshape(len(x), 4, 4, 2)) * self.scale


        warp, conv, head = Warp().cuda(), nn.Conv2d(1, 8, 3).cuda(), nn.Linear(32, 10).cuda()
        x, points = torch.rand(2, 1, 4, 4).cuda(), torch.rand(2, 8, 4).cuda()
        out = head(conv(warp(x, points)).flatten(1))  # region
        """,
    )
    assert [(answer.line(e.site), e.why) for e in answer.events(Act.RISK)] == [
        (8, "a buffer is multiplied"),
        (8, "the inverse of a matrix is multiplied"),
        (9, "a sampling grid is rounded, and off by part of a pixel"),
    ]


def test_products_of_a_matrix_with_itself(told: Tell) -> None:
    answer = moved(
        told,
        """
        vgg = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()).cuda()
        f = vgg(torch.randn(1, 3, 64, 64).cuda())  # region
        f = f.view(16, 64 * 64)  # region
        gram = torch.mm(f, f.t())  # region
        turned = f.transpose(0, 1)  # region
        again = turned @ f  # region
        unit = F.normalize(f)  # region
        cosine = unit @ unit.t()  # region
        """,
    )
    assert answer.lines(Act.RISK) == [4, 6]
    assert precision(answer, "gram") == F16


def test_two_pieces_of_one_product_are_two_matrices(told: Tell) -> None:
    answer = moved(
        told,
        """
        make, layers = nn.Linear(8, 24).cuda(), nn.ModuleList(nn.Linear(8, 8) for _ in range(3)).cuda()
        x = torch.randn(2, 6, 8).cuda()


        def attend():
            qkv = make(x).reshape(2, 6, 3, 8).permute(2, 0, 1, 3)
            q, k, v = qkv[0], qkv[1], qkv[2]
            a = q @ k.transpose(1, 2)
            q, k, v = qkv.unbind(0)
            a = a + q @ k.transpose(1, 2)
            q, k, v = (each.contiguous() for each in make(x).chunk(3, -1))
            a = a + q @ k.transpose(1, 2)
            q, k, v = [layer(x).view(2, 6, 8) for layer in layers]
            a = a + q @ k.transpose(1, 2)
            left, right = make(x)[..., :8], make(x)[..., 8:16]
            a = a + torch.bmm(left, right.transpose(1, 2))
            own = qkv[0]
            a = a + own @ own.transpose(1, 2)
            return a + make(x)[:, None][:, 0] @ make(x)[..., None].mean()


        out = attend()  # region
        """,
    )
    assert answer.lines(Act.RISK) == [18]


def test_two_things_that_an_unread_model_gives_are_two_matrices(told: Tell) -> None:
    answer = moved(
        told,
        """
        from models import Retriever
        model, x = Retriever().cuda(), torch.ones(4, 8).cuda()


        def compared():
            out = model(x)
            q, c = out["q"], out["c"]
            a = torch.mm(q, c.t()) + out["q"] @ out["c"].T + out.q @ out.c.T
            a = a + torch.mm(q, q.t())
            a = a + out["q"] @ out["q"].T
            a = a + out.q @ out.q.mT
            q, c = model(x)
            a = a + q @ c.T
            return a + q @ q.T


        out = compared()  # region
        """,
    )
    assert [answer.line(e.site) for e in answer.events(Act.RISK) if e.why == OF_ITSELF] == [9, 10, 11, 14]


def test_a_matrix_that_any_of_several_operations_made_is_one_where_it_has_a_name(told: Tell) -> None:
    answer = moved(
        told,
        """
        class Features(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

            def forward(self, x):
                a = self.first(x).relu()
                return a, self.second(a).relu()


        def gram(x):
            f = x.view(1, 8, -1)
            turned = f.transpose(1, 2)
            return torch.bmm(f, turned)


        features = Features().cuda()
        grams = [gram(each) for each in features(torch.randn(1, 3, 16, 16).cuda())]  # region
        """,
    )
    assert answer.lines(Act.RISK) == [14]


def test_what_leaves_a_region_low(told: Tell) -> None:
    answer = moved(
        told,
        """
        model = nn.Linear(8, 100).cuda()
        out = model(torch.randn(10000, 8).cuda())  # region
        std = ((out - out.mean(0)).pow(2).sum() / 10000) ** 0.5
        prob = out.exp()
        word = torch.multinomial(prob, num_samples=1)
        wide = torch.randn(100, 8).cuda()
        product = out @ wide
        kept = torch.zeros(10000, 100).cuda()
        kept[torch.arange(10)] = out[:10]
        kept[0] = out[0]
        array = out.detach().cpu().numpy()
        safe = out.float().exp()
        total = out.sum(dtype=torch.float32)
        """,
    )
    assert answer.lines(Act.LEFT_FLOAT) == [3, 4]
    assert answer.lines(Act.MISMATCH) == [7]
    assert answer.lines(Act.INDEX_STORE) == [9]
    assert answer.lines(Act.TO_NUMPY) == [11]
    assert precision(answer, "safe") == F32


def test_what_a_region_makes_low_only_where_it_is_on_has_not_left_it(told: Tell) -> None:
    answer = told(
        """
        import contextlib

        model = nn.Linear(8, 8).cuda()
        amp = torch.autocast("cuda", torch.float16) if input() else contextlib.nullcontext()
        x = torch.zeros(4, 8)
        with amp:
            loss = F.cross_entropy(model(x), torch.zeros(4).long())
            inner = (model(x) @ torch.zeros(8, 8).cuda()).exp()
        left = model(x)
        with amp:
            left = model(x)
        left = left.exp()
        """
    )
    assert answer.lines(Act.LEFT_FLOAT) == [12]
    assert answer.lines(Act.MISMATCH, Act.ON_CPU) == []


def test_a_fault_of_a_tensor_that_may_be_float32_is_one_on_some_ways(told: Tell) -> None:
    text = """
        model, x = nn.Linear(8, 8).cuda(), torch.randn(4, 8).cuda()
        with torch.autocast("cuda", torch.float16):
            low = model(x)
        sure = low.exp()
        if input():
            low = low.float()
        unsure = low.exp()
    """
    found = faults(told(text).analysis)
    assert [(each.site.line - 3, each.always, each.why) for each in found] == [(4, True, "exp"), (7, False, "exp")]


def test_a_probability_that_was_rounded(told: Tell) -> None:
    answer = told(
        """
        D = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()


        def match(outputs):
            prob = outputs["logits"].flatten(0, 1).sigmoid()
            return (1 - prob + 1e-8).log()


        x, y = torch.randn(4, 8).cuda(), torch.rand(4, 1).cuda()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            p = D(x)
            loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
            late = D(x).float().log()
            neg = match({"logits": F.linear(x, D[0].weight)})
            right = F.linear(x, D[0].weight).float().sigmoid().log()
            soft = D[0](x).softmax(-1).log()
        """
    )
    assert answer.lines(Act.RISK) == [6, 12, 13]


def test_a_loss_that_autocast_refuses_out_of_a_dictionary(told: Tell) -> None:
    answer = told(
        """
        LOSSES = {"bce": nn.BCELoss, "ce": nn.CrossEntropyLoss}


        def train(cfg, model, loader):
            crit = LOSSES[cfg.loss](reduction="mean")
            for x, y in loader:
                with torch.amp.autocast("cuda"):
                    loss = crit(model(x), y)
                with torch.amp.autocast("cuda", enabled=False):
                    loss = crit(model(x).float(), y)
        """
    )
    assert answer.lines(Act.REFUSED) == [8]


def test_code_that_is_not_read_in_a_region(told: Tell) -> None:
    answer = moved(
        told,
        """
        import fused_ext


        class Fused(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, bias):
                return fused_ext.bias_act(x, bias)

            @staticmethod
            def backward(ctx, grad):
                return grad, grad.sum(0)


        class Safe(Fused):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
            def forward(ctx, x, bias):
                return x + bias


        lin = nn.Linear(8, 8).cuda()
        bias = nn.Parameter(torch.zeros(8))
        out = Fused.apply(lin(torch.randn(4, 8).cuda()), bias)  # region
        """,
    )
    assert [(answer.line(e.site), e.why) for e in answer.events(Act.FOREIGN)] == [(7, "fused_ext.bias_act")]


def test_an_object_of_a_function_of_autograds_own_applies_what_its_class_does(told: Tell) -> None:
    answer = told(
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.double()

            @staticmethod
            def backward(ctx, grad):
                return grad


        base = torch.autograd.Function()
        base.apply(print)
        out = Double().apply(torch.zeros(8))
        """
    )
    assert precision(answer, "out") == F64


@pytest.mark.parametrize("layer", ["nn.LSTM(8, 8)", "nn.GRU(8, 8)", "nn.RNN(8, 8)", "nn.LSTMCell(8, 8)"])
def test_a_recurrent_layer_behind_a_region_takes_nothing_low(told: Tell, layer: str) -> None:
    answer = moved(
        told,
        f"""
        encoder, layer = nn.Linear(8, 8).cuda(), {layer}.cuda()
        features = encoder(torch.randn(4, 8).cuda())  # region
        low = layer(features)
        kept = layer(features.float())
        same = layer(features)  # region
        """,
    )
    assert answer.lines(Act.MISMATCH) == [3]


def test_what_has_a_sum_is_no_bool_but_a_tensor_of_them(told: Tell) -> None:
    answer = moved(
        told,
        """
        model = nn.Linear(8, 8).cuda()
        for x, mask in data:
            error = F.mse_loss(model(x), x).sum() / (mask > 0).sum().float()  # region
        is_large = input() > "0"
        length = is_large.bit_length()
        """,
    )
    assert precision(answer, "error") == F32
    assert answer.value("length")


def test_code_that_asks_for_a_dtype(told: Tell) -> None:
    answer = told(
        """
        lin = nn.Linear(8, 8).cuda()
        with torch.amp.autocast("cuda", dtype=torch.float16):
            value = lin(torch.randn(4, 8).cuda())
            if value.dtype == torch.float16:
                value = value.float()
            if value.float().dtype == torch.float16:
                value = value + 1
        """
    )
    (event,) = answer.events(Act.COMPARES_DTYPE)
    (dtype,) = event.subject
    assert dtype.precision == F16


def test_what_a_comparison_of_dtypes_comes_to(told: Tell) -> None:
    answer = told(
        """
        net = nn.Linear(8, 8).cuda().half()
        halves = next(net.parameters()).dtype == torch.float16
        singles = torch.randn(4).dtype == torch.float64
        labels = torch.zeros(4).type(torch.IntTensor)
        longs = labels.dtype == torch.int64
        shorts = labels.dtype == torch.float16
        """
    )
    assert precision(answer, "labels") == INT
    found = {name: answer.value(name) for name in ("halves", "singles", "longs", "shorts")}
    assert found == {"halves": const(True), "singles": const(False), "longs": TRUTHS, "shorts": const(False)}


def test_the_dtype_of_a_region(told: Tell) -> None:
    answer = told(
        """
        lin, x = nn.Linear(8, 8).cuda(), torch.randn(4, 8).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            a = lin(x)
            with torch.cuda.amp.autocast(False):
                b = lin(x)
            c = lin(x) + x
        with torch.cuda.amp.autocast(dtype=torch.float16):
            d = lin(x)
        with torch.autocast("cuda", enabled=bool(input())):
            e = lin(x)
        f = lin(x)
        """
    )
    assert [precision(answer, name) for name in "abcdef"] == [BF16, F32, F32, F16, F16 | F32, F32]
    maybe = answer.value("e")
    assert all(each.regions for each in maybe)


def test_regions_of_decorators_managers_and_generators(told: Tell) -> None:
    answer = told(
        """
        import contextlib

        lin, x = nn.Linear(8, 8).cuda(), torch.randn(4, 8).cuda()


        @torch.autocast("cuda", dtype=torch.float16)
        def run(x):
            return lin(x)


        @contextlib.contextmanager
        def mixed(on):
            with torch.autocast("cuda", dtype=torch.float16, enabled=on):
                yield 1


        class Manager:
            def __enter__(self):
                self.region = torch.autocast("cuda", dtype=torch.bfloat16)
                self.region.__enter__()

            def __exit__(self, *error):
                self.region.__exit__(*error)


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(8, 8)
                self.ctx = contextlib.nullcontext

            @torch.amp.autocast("cuda", dtype=torch.float16)
            def forward(self, x):
                return self.lin(x)


        a = run(x)
        with mixed(True):
            b = lin(x)
        with mixed(False):
            c = lin(x)
        with Manager():
            d = lin(x)
        e = Net().cuda()(x)
        amp = torch.autocast("cuda", dtype=torch.float16) if input() else contextlib.nullcontext()
        with amp:
            f = lin(x)
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.autocast("cuda", dtype=torch.float16))
            g = lin(x)
        """
    )
    assert [precision(answer, name) for name in "abcdefg"] == [F16, F16, F32, BF16, F16, F16 | F32, F16]


def test_wrappers_of_modules(told: Tell) -> None:
    answer = moved(
        told,
        """
        import copy


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder, self.heads = nn.Linear(8, 8), nn.ModuleDict({"a": nn.Linear(8, 2)})

            def forward(self, x, head="a"):
                return self.heads[head](self.encoder(x))


        def build():
            model = Net()
            if torch.cuda.device_count() > 1:
                model.encoder = nn.DataParallel(model.encoder)
            return model.cuda(), nn.CrossEntropyLoss().cuda()


        model, criterion = build()
        x = torch.randn(16, 8).cuda()
        y = torch.randint(2, (16,)).cuda()
        a = model(x)  # region
        loss = criterion(a, y)  # region
        ema = copy.deepcopy(model).eval()
        b = torch.compile(ema)(x)  # region
        c = nn.parallel.DistributedDataParallel(model, device_ids=[0]).module.encoder(x)  # region
        """,
    )
    assert [precision(answer, name) for name in ("a", "loss", "b", "c")] == [F16, F32, F16, F16]


@pytest.mark.parametrize(
    ("line", "is_on_cpu"),
    [
        ("", True),
        ("model.to('cpu')", True),
        ("print(torch.cuda.is_available())", True),
        ("model.cuda()", False),
        ("model.to(input())", False),
        ("model.to('cuda:0')", False),
        ("something.cuda()", False),
        ("torch.set_default_tensor_type(input())", False),
        ("x = something()", True),  # of what is on a GPU, `y` could not be taken
        ("x = y = something()", False),
        ("x = torch.randn(16, 8, device=input())", False),
        ("model = nn.Sequential(something(), model)", True),
        ("y = model(x).detach()", True),
        ("x = y = model(something()).detach()", False),
    ],
)
def test_a_script_that_never_reaches_a_device(told: Tell, line: str, is_on_cpu: bool) -> None:
    made = "model, x, y = nn.Linear(8, 1), torch.randn(16, 8), torch.randn(16, 1)\n"
    text = f"{made}{line}\n(model(x) - y).mean().backward()\n"
    assert Questions(told(text).analysis).is_on_cpu is is_on_cpu


@pytest.mark.parametrize(
    ("inside", "is_idle"),
    [
        ("loss = (logits * weight).mean()", True),
        ("loss = F.cross_entropy(logits, weight.long())", True),
        ("loss = (logits @ weight).mean()", False),
        ("loss = something(logits)", False),
        ("loss = (logits * something.a.b.c.d.e.f.detach().clone().to('cuda')).mean()", True),
        ("loss = (logits * something.a.b.c.d.e.f.scored(logits)).mean()", False),
        ("with torch.amp.autocast('cuda'):\n        loss = model(logits).mean()", False),
        ("with torch.no_grad():\n        weight = model(logits)\n    loss = (logits * weight).mean()", False),
    ],
)
def test_a_region_for_training_in_which_nothing_is_low(told: Tell, inside: str, is_idle: bool) -> None:
    head = MLP + "weight = torch.randn(4, 8).cuda()\nlogits = model(weight)\nwith torch.amp.autocast('cuda'):\n    "
    evaluating = "\nwith torch.no_grad(), torch.amp.autocast('cuda'):\n    out = model(weight)\n"
    answer = told(head + inside + evaluating)
    assert bool(Questions(answer.analysis).idle_regions()) is is_idle


@pytest.mark.parametrize(
    "made",
    [
        'net = nn.Sequential()\nnet.add_module("stem", nn.Linear(8, 8))\nnet.add_module("head", nn.Linear(8, 8))\n',
        'import collections\nnet = nn.Sequential(collections.OrderedDict([("a", nn.Linear(8, 8))]))\n',
        'net = nn.Sequential()\nfor i in range(3):\n    net.add_module("part{}".format(i), nn.Linear(8, 8))\n',
        "class Head(nn.Sequential):\n    def __init__(self):\n        super().__init__()\n"
        "        self.size = 8\n        self.conv = nn.Linear(8, self.size)\n\n\nnet = Head()\n",
    ],
)
def test_a_chain_runs_the_modules_that_it_got_by_name(told: Tell, made: str) -> None:
    answer = moved(told, f"{made}out = net.cuda()(torch.rand(4, 8).cuda())  # region\n")
    assert precision(answer, "out") == F16


@pytest.mark.parametrize("called", ["super().__call__(x)", "super(Inner, self).__call__(x)"])
def test_a_call_that_is_handed_to_pytorch_runs_the_forward(told: Tell, called: str) -> None:
    inner = (
        "class Inner(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.lin = nn.Linear(8, 8)\n    def forward(self, x):\n        return self.lin(x)\n"
        f"    def __call__(self, x):\n        return {called}\n"
    )
    answer = moved(told, f"{inner}net = Inner().cuda()\nout = net(torch.rand(4, 8).cuda())  # region\n")
    assert precision(answer, "out") == F16


ONE_MORE = "for _ in range(3):\n    net = nn.Sequential({})\nout = net.cuda()(torch.rand(4, 8).cuda())  # region\n"


@pytest.mark.parametrize(
    ("first", "parts", "found"),
    [
        ("nn.Linear(8, 8)", "nn.Linear(8, 8), net", F16),
        ("nn.Softmax(dim=-1)", "net, nn.Identity()", F32),
        ("nn.Linear(8, 8)", "net, nn.Softmax(dim=-1)", F16 | F32),
    ],
)
def test_a_chain_that_is_made_of_the_one_before(told: Tell, first: str, parts: str, found: int) -> None:
    answer = moved(told, f"net = {first}\n{ONE_MORE.format(parts)}")
    assert precision(answer, "out") == found


def test_a_chain_that_gives_more_with_each_round_gives_anything(told: Tell) -> None:
    pair = "class Pair(nn.Module):\n    def forward(self, x):\n        return x, 1\n\n\nnet = nn.Identity()\n"
    answer = moved(told, f"{pair}{ONE_MORE.format('net, Pair()')}")
    assert any(isinstance(each, Opaque) for each in answer.value("out"))


def test_a_forward_that_casts_its_inputs_gets_float32(told: Tell) -> None:
    text = """
        class Energy(nn.Module):
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
            def forward(self, x, labels):
                self.seen, self.labels = x, labels
                return x * x


        lin, energy = nn.Linear(8, 8).cuda(), Energy()
        out = energy(lin(torch.randn(4, 8).cuda()), torch.zeros(4).long())  # region
        """
    answer = moved(told, text)
    assert (precision(answer, "self.seen"), precision(answer, "out")) == (F32, F32)
    assert precision(answer, "self.labels") == INT
    bare = moved(told, text.replace('(device_type="cuda", cast_inputs=torch.float32)', '(device_type="cuda")'))
    assert precision(bare, "self.seen") == F16


@pytest.mark.parametrize(("rounds", "is_idle"), [(1, False), (30, True)])
def test_a_region_in_which_something_is_given_up_may_compute_anything(
    told: Tell, monkeypatch: pytest.MonkeyPatch, rounds: int, is_idle: bool
) -> None:
    monkeypatch.setattr("amp_migrate.flow.python.statements._MOST_ROUNDS", rounds)
    found = told(
        """
        table = nn.Embedding(9, 8).cuda()

        def look(x):
            for each in (1, 2, 3):
                x = x * each

        with torch.autocast("cuda", dtype=torch.float16):
            look(table(index))
            loss = table(index).sum()
        loss.backward()
        """
    ).analysis
    assert bool(Questions(found).idle_regions()) is is_idle


@pytest.mark.parametrize(
    ("text", "flows"),
    [
        ("with torch.set_grad_enabled(False):\n    y = model(x)\nz = model(x)", (CUT, FLOWS)),
        ("with torch.set_grad_enabled(flag()):\n    y = model(x)\nz = model(x)", (CUT | FLOWS, FLOWS)),
        ("@torch.set_grad_enabled(False)\ndef f():\n    return model(x)\n\ny = f()\nz = model(x)", (CUT, FLOWS)),
        ("torch.set_grad_enabled(False)\ny = model(x)\ntorch.set_grad_enabled(True)\nz = model(x)", (CUT, FLOWS)),
        ("y = model(x)\ntorch._C._set_grad_enabled(False)\nz = model(x)", (FLOWS, CUT)),
    ],
)
def test_what_switches_gradients_as_it_is_made_switches_them_back_behind_its_block(
    told: Tell, text: str, flows: tuple[int, int]
) -> None:
    answer = told(f"model, x = nn.Linear(2, 2), torch.rand(2, 2)\n{text}\n")
    assert tuple(tensor.flows for name in "yz" for tensor in answer.value(name)) == flows


@pytest.mark.parametrize(
    ("given", "is_told"),
    [("torch.sigmoid(x.float()) if net.ends else x", False), ("torch.sigmoid(x) if net.ends else x", True)],
)
def test_only_probabilities_that_low_precision_has_had_are_rounded_by_it(told: Tell, given: str, is_told: bool) -> None:
    text = f"""
    def make(x, y):
        x = net(x)  # region
        p = ({given}).squeeze()  # region
        return F.binary_cross_entropy(p.float(), y)

    net = nn.Linear(8, 1).cuda()
    make(torch.randn(4, 8).cuda(), torch.rand(4).cuda())
    """
    rounded = [each for each in moved(told, text).events(Act.RISK) if each.why == A_ROUNDED_PROBABILITY]
    assert bool(rounded) is is_told


def test_what_a_region_makes_low_is_on_the_device_of_the_region(told: Tell) -> None:
    text = """
    def placed(x):
        if torch.cuda.is_available():
            x = x.cuda()
        return x

    logits = zoo.net(placed(torch.randn(4, 8)))  # region
    probs = F.softmax(logits, dim=-1)  # region
    """
    assert not precision(moved(told, text), "probs") & F16


def test_a_number_over_a_tensor_is_its_reciprocal(told: Tell) -> None:
    # `torch.Tensor.__rdiv__` is `self.reciprocal() * other`, and autocast computes `reciprocal` in float32.
    text = MLP + "y = model(torch.randn(4, 8).cuda())  # region\nover = 1 / y  # region\nhalf = y / 2  # region\n"
    answer = moved(told, text)
    assert (precision(answer, "over"), precision(answer, "half")) == (F32, F16)


def test_neither_a_container_nor_a_distribution_can_be_cast(told: Tell) -> None:
    made = "x = torch.randn(4, 8).cuda()\nheld = {'x': x}\nq = torch.distributions.Normal(x, 1.0)\n"
    answer = told(made + "held['x'].float()\nq.loc.float()\nq.float()\nheld.float()\n")
    assert answer.lines(Act.NOT_A_TENSOR) == [6, 7]


@pytest.mark.parametrize(
    ("product", "is_told"),
    [
        ("i @ i.t()", True),
        ("torch.einsum('nc,nd->cd', i, i)", True),
        ("i.mT.mm(i.reshape(4, 8))", True),
        ("F.linear(i, i.contiguous())", True),
        ("i @ kept[1].t()", False),
        ("i[:4] @ i[4:].t()", False),
        ("i.chunk(2)[0] @ i.t()", False),
        ("nn.MultiheadAttention(8, 2).cuda()(i, i, i)", False),
    ],
)
def test_a_variable_that_is_one_of_several_tensors_is_the_same_in_all_of_a_product(
    told: Tell, product: str, is_told: bool
) -> None:
    text = f"kept = [model(x), model(y), load()]  # region\nfor i in kept:\n    {product}  # region\n"
    answer = moved(told, MLP + "x, y = torch.randn(4, 8).cuda(), torch.randn(4, 8).cuda()\n" + text)
    found = [each for each in answer.events(Act.RISK) if each.why == OF_ITSELF]
    assert bool(found) is is_told
