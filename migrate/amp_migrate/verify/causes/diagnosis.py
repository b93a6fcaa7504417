"""What keeps mixed precision from making a script faster: a rule for each cause, each with its measurement."""

from __future__ import annotations

from collections.abc import Callable

from amp_migrate.verify.causes.kernel_causes import host, layout, matrix_units, time_of_casts
from amp_migrate.verify.causes.measured import Diagnosis, Found, Measured
from amp_migrate.verify.judge.statistics.speed import TF32_CAPABILITY
from amp_migrate.verify.recorded.recording import LOW_DTYPES, Product

MUCH_DATA = MUCH_OPTIMIZER = 0.2
ENOUGH_HALF = 0.5
ODD_SHARE = MUCH_CAST = 0.1
WORTH_IT = 1.3
HALF_OVER_FLOAT, HALF_OVER_TF32 = 8.0, 2.0  # peak rates of matrix units; 16 instead of 8 from A100 on


def diagnose(measured: Measured) -> tuple[Diagnosis, ...]:
    """All causes, those that limit first."""
    found = [rule(measured) for rule in _RULES]
    return tuple(sorted(found, key=lambda one: list(Found).index(one.found)))


def _precision(measured: Measured) -> Diagnosis:
    products = measured.anatomy.products
    total = sum(each.flops for each in products)
    if not total:
        return Diagnosis("precision", Found.UNKNOWN, "no matrix product or convolution was seen")
    half = sum(each.flops for each in products if each.dtype in LOW_DTYPES) / total
    evidence = f"{half:.0%} of the floating-point operations of matrix products and convolutions are in half precision"
    if half == 0:
        return Diagnosis("precision", Found.LIMITS, evidence, "migrate the script: amp-migrate")
    if half >= ENOUGH_HALF:
        return Diagnosis("precision", Found.FINE, evidence)
    whole = sorted({each.operation for each in products if each.dtype not in LOW_DTYPES})
    return Diagnosis("precision", Found.LIMITS, evidence, f"look for .float() and regions before {', '.join(whole)}")


def _tf32(measured: Measured) -> Diagnosis:
    if not measured.on_gpu:
        return Diagnosis("TF32", Found.UNKNOWN, "whether float32 runs on matrix units cannot be told without a GPU")
    settings = {"convolutions": "tf32_convolutions", "products": "tf32"}
    computed = {"convolutions" if _is_convolution(each) else "products" for each in measured.anatomy.products}
    used = [kind for kind, setting in settings.items() if kind in computed and measured.environment[setting]]
    if not used or measured.capability < TF32_CAPABILITY:
        return Diagnosis("TF32", Found.FINE, "float32 does not run on matrix units")
    action = f"expect about {HALF_OVER_TF32:g} times from them, not {HALF_OVER_FLOAT:g}"
    return Diagnosis("TF32", Found.LIMITS, f"float32 {' and '.join(used)} already use TF32", action)


def _input(measured: Measured) -> Diagnosis:
    share = measured.share("data")
    milliseconds = measured.phases.get("data", 0.0)
    evidence = f"{milliseconds:.2f} ms of {measured.phases['step']:.2f} ms wait for data ({share:.0%})"
    if measured.one_batch_ms is not None:
        evidence += f"; a step of {measured.step_ms:.2f} ms takes {measured.one_batch_ms:.2f} ms with one batch kept"
    if waits_for_data(measured):
        action = "more workers, pinned memory, cheaper transforms: this time stays whatever the precision"
        return Diagnosis("input", Found.LIMITS, evidence, action)
    return Diagnosis("input", Found.FINE, evidence)


def _optimizer(measured: Measured) -> Diagnosis:
    share = measured.share("optimizer")
    evidence = f"{measured.phases.get('optimizer', 0.0):.2f} ms are the optimizer's step ({share:.0%}), in float32"
    if share > MUCH_OPTIMIZER:
        return Diagnosis(
            "optimizer",
            Found.LIMITS,
            evidence,
            "fused=True (with a GradScaler not for SGD with momentum: AMP637) or foreach=True; a larger batch",
        )
    return Diagnosis("optimizer", Found.FINE, evidence)


def _reads(measured: Measured) -> Diagnosis:
    reads = measured.anatomy.reads
    count = sum(reads.values()) / measured.anatomy.steps
    evidence = f"{count:.1f} reads of values per step" + (f" ({', '.join(sorted(reads))})" if reads else "")
    if count > 2:  # a loss scaler makes one, and a loss that is printed another
        return Diagnosis("reads", Found.LIMITS, evidence, "each makes the host wait for a GPU: read less often")
    return Diagnosis("reads", Found.FINE, evidence)


def _casts(measured: Measured) -> Diagnosis:
    seen, steps = measured.anatomy, measured.anatomy.steps
    evidence = (
        f"{seen.weight_casts / steps:.0f} weights and {seen.other_casts / steps:.0f} other tensors are cast to half "
        f"precision per step, {seen.cast_bytes / steps / 2**20:.1f} MiB"
    )
    products, time = len(seen.products), time_of_casts(measured)
    if time is not None:
        evidence += f", {time:.0%} of the GPU's time"
    if (time is not None and time > MUCH_CAST) or (products and seen.other_casts / steps > 2 * products):
        return Diagnosis("casts", Found.LIMITS, evidence, "cast once, before the loop or at its top")
    return Diagnosis("casts", Found.FINE, evidence)


def _shapes(measured: Measured) -> Diagnosis:
    products = measured.anatomy.products
    total = sum(each.flops for each in products)
    odd = sorted((each for each in products if _is_odd(each)), key=lambda each: -each.flops)
    share = sum(each.flops for each in odd) / total if total else 0.0
    named = "; ".join(f"{each.operation} {'x'.join(map(str, each.sizes))}" for each in odd[:3])
    evidence = f"{share:.0%} of those operations have a size that is no multiple of 8" + (f": {named}" if named else "")
    if share > ODD_SHARE:
        return Diagnosis("shapes", Found.LIMITS, evidence, "pad classes, vocabulary, channels or the batch; measure it")
    return Diagnosis("shapes", Found.FINE, evidence)


def waits_for_data(measured: Measured) -> bool:
    """Whether data limits it, so that a run without waiting for them is worth its time."""
    return measured.share("data") > MUCH_DATA


def _is_odd(product: Product) -> bool:
    return any(size % 8 for size in product.sizes)


def _is_convolution(product: Product) -> bool:
    return product.operation.startswith("conv")


def _mostly_tf32(measured: Measured) -> bool:
    """Whether most of the matrix operations run in TF32 where they are in float32."""
    products = measured.anatomy.products
    convolved = sum(each.flops for each in products if _is_convolution(each))
    kind = "tf32_convolutions" if 2 * convolved > sum(each.flops for each in products) else "tf32"
    return measured.capability >= TF32_CAPABILITY and bool(measured.environment[kind])


def _ceiling(measured: Measured) -> Diagnosis:
    timed = measured.kernels if measured.kernels is not None else measured.profile
    if not timed.total:
        return Diagnosis("ceiling", Found.UNKNOWN, "no operation was timed")
    part = timed.products / timed.total * (1 - measured.share("data"))
    rate = HALF_OVER_TF32 if measured.on_gpu and _mostly_tf32(measured) else HALF_OVER_FLOAT
    likely, best = (1 / (1 - part + part / times) if part < 1 else times for times in (rate, 1e9))
    where = "GPU" if measured.on_gpu else "processor"
    evidence = (
        f"matrix products and convolutions take {part:.0%} of the {where} time of a step: {likely:.1f} times as fast "
        f"with them {rate:g} times as fast, {best:.1f} times at most"
    )
    if likely < WORTH_IT:
        return Diagnosis("ceiling", Found.LIMITS, evidence, "the rest of the step is what to work on")
    return Diagnosis("ceiling", Found.FINE, evidence)


_RULES: tuple[Callable[[Measured], Diagnosis], ...] = (
    _ceiling,
    _precision,
    _input,
    _optimizer,
    host,
    matrix_units,
    _tf32,
    _shapes,
    _casts,
    layout,
    _reads,
)
