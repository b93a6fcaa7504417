"""Put the recorder on torch, at the end of its import."""

from __future__ import annotations

import atexit
import os
import platform
import sys
from typing import Any, NoReturn

import torch

from .apex import apex_amp
from .force import amp_off, bfloat16, drill, keep_float32, oracle, plant, seeds, tf32, ulp, variants
from .measure import models
from .measure.phases import Phases
from .measure.profile import Profile
from .measure.timing import StepTimer
from .process import port
from .process.place import UsersCode
from .progress import Progress
from .record import checkpoints, clipping, losses, lost, scaler
from .record.by_hand import ByHand
from .record.census import Census
from .record.modules import choose_no_algorithms, nonfinite
from .record.objects import Objects
from .record.ranges import Ranges
from .record.state import StateRecorder
from .record.steps import StepRecorder
from .spec import ONE_BATCH, RecorderSpec, Resume
from .standin import cuda_table, devices, uncompiled
from .writer import Writer


def prepare(spec: RecorderSpec, users: UsersCode) -> str:
    """What every process of the script needs: its device, its seeds, and what the run forces.

    Returns the autocast device type that the script's tensors are on.
    """
    device = "cuda" if spec.device != "cpu" and _gpu_present() else "cpu"
    if device == "cpu":
        devices.install(spec.shim, users)
    seeds.wrap_torch(torch, spec)
    if spec.oracle:
        oracle.install(device, spec.oracle)  # before amp_off, which would switch it off as well
    if spec.unseen:
        amp_off.install_unseen(users)
    elif spec.amp_off:
        amp_off.install()
    if spec.bfloat16:
        bfloat16.install()
    if spec.ulp:
        ulp.install(spec.ulp)
    if spec.plant:
        plant.install(spec.plant)
    if spec.port:
        port.install(spec.port)
    if not spec.timing:
        # What torch.use_deterministic_algorithms does, without its import of the compiler, which takes seconds.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
    return device


def attach(spec: RecorderSpec, writer: Writer, users: UsersCode) -> None:
    """Prepare this process and record it."""
    if spec.device == "cuda" and not _gpu_present():
        writer.put("refused", reason="--device cuda: this interpreter's torch sees no CUDA device")
        writer.flush()
        sys.exit(2)
    device = prepare(spec, users)
    _write_before_os_exit(writer)
    writer.put("start", **_environment(device))
    if device == "cpu":
        uncompiled.install(lambda: writer.put("uncompiled"))
    progress = Progress(spec, writer, device)
    if variants.FUSED in spec.variants:
        variants.fuse()
    if ONE_BATCH in spec.variants:
        variants.repeat_batches()
    if spec.timing:
        phases = Phases(progress)
        if spec.phases:
            phases.install()  # before the timer, which ends a step in the same hook
        timer = StepTimer(progress)
        scaler.install(timer)
        atexit.register(_finish_timing, writer, timer, device)
        if spec.phases:
            atexit.register(phases.write)
        if spec.anatomy:
            from .measure import anatomy  # imports a counter of operations, which no other run needs

            atexit.register(anatomy.look(progress).close)
    else:
        choose_no_algorithms()
        objects = Objects()
        objects.follow()
        steps = judge(progress)
        state = StateRecorder(progress, objects)
        state.install()
        progress.at_save.append(lambda: state.look(Resume.SAVES.value))
        if spec.reference:
            lost.follow(progress, spec.reference)
        apex_amp.follow(progress, steps)
        if spec.places and device == "cpu":
            from .standin import places

            atexit.register(places.watch(progress, users).close)  # before the census, which opens and closes above it
        ranges = Ranges(users) if spec.ranges else None
        census = Census(progress, ranges) if spec.census else None
        if spec.drill:
            drill.install(progress, objects)
        if spec.profile:
            atexit.register(Profile(progress, spec.trace).close)
        by_hand = ByHand(objects, steps)
        by_hand.install()
        atexit.register(_finish, progress, state, census, ranges, users)
        atexit.register(by_hand.close)  # before it
    found = _for_models(spec, progress, users)
    if spec.resume is Resume.GOES_ON:
        found.append(lambda ordinal, model: None if ordinal else state.look(Resume.GOES_ON.value))
    if found:
        models.follow(writer, users, found, losses=spec.parts or bool(spec.islands))


def judge(progress: Progress) -> StepRecorder:
    """Record what a run is judged by: losses, clipping, checkpoints, norms and the scaler's events."""
    losses.install(progress)
    clipping.install(progress)
    checkpoints.install(progress)
    steps = StepRecorder(progress)
    steps.install()
    scaler.install(steps)
    return steps


def _for_models(spec: RecorderSpec, progress: Progress, users: UsersCode) -> list[models.Found]:
    """What is to be done with each model of the script."""
    found = []
    if spec.variants:
        found.append(variants.changer(spec.variants))
    if spec.tf32 is not None:
        found.append(tf32.setter(spec.tf32))
    if spec.islands:
        found.append(keep_float32.keeper(spec))
    if spec.parts:
        from .measure.parts import Parts  # imports a counter of operations, which no other run needs

        parts = Parts(progress, users)
        parts.install()
        found.append(parts.add)
        atexit.register(parts.write)
    return found


def _write_before_os_exit(writer: Writer) -> None:
    """`os._exit` calls no exit handlers: write what has been collected before it."""
    leave = os._exit

    def write_and_leave(status: int) -> NoReturn:
        writer.flush()
        leave(status)

    holder: Any = os
    holder._exit = write_and_leave


def _gpu_present() -> bool:
    """Whether torch sees a GPU, asked through NVML: a script may still choose its devices after importing torch."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        return torch.cuda.is_available()
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _finish(
    progress: Progress, state: StateRecorder, census: Census | None, ranges: Ranges | None, users: UsersCode
) -> None:
    writer = progress.writer
    if census is not None:
        census.close()
    if ranges is not None:
        ranges.write(writer)
    if progress.spec.program and progress.attempts:
        state.look("end")
        writer.put("seeds", calls=seeds.asked_for)
    writer.put("code", files=users.loaded())
    apex = "apex" in sys.modules
    writer.put("end", nonfinite=nonfinite(state.objects), apex=apex, **_memory(progress.device))
    writer.flush()


def _finish_timing(writer: Writer, timer: StepTimer, device: str) -> None:
    timer.write()
    writer.put("end", **_memory(device))
    writer.flush()


def _resident() -> dict[str, int]:
    """Peak resident memory of the process in bytes, where the system tells it, as Windows does not."""
    try:
        import resource
    except ImportError:
        return {}
    # On Linux the kernel counts in KiB, on macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return {"peak_resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}


def _memory(device: str) -> dict[str, Any]:
    """Peak memory in bytes, and the device's name, which is not asked before the script has chosen its device."""
    resident = _resident()
    if device == "cpu":
        return {"device": cuda_table.NAME, **resident}
    if not torch.cuda.is_initialized():
        return {"device": "a GPU that was not used", **resident}
    return {
        "device": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        **resident,
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
    }


def _environment(device: str) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "stand_in": device == "cpu",
        "threads": torch.get_num_threads(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
    }
