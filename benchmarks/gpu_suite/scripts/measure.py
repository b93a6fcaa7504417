"""What the training scripts and their hand-written counterparts share: options, the data, and a clock."""

import argparse
import statistics
import time
from pydoc_data.topics import topics

import torch
from torch.nn import functional as F

WARM_UP, PROFILED = 10, 3


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tf32", action="store_true", help="matrix products of float32 in TensorFloat-32")
    parser.add_argument("--fused", action="store_true", help="the optimizer's fused kernels")
    parser.add_argument("--opt-level", default="O1", help="of Apex, where it is used")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser


def start(args):
    """Seed, and set what the options say about the whole process."""
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = args.tf32
    torch.backends.cudnn.allow_tf32 = args.tf32
    torch.backends.cudnn.benchmark = True


def digits(device):
    """Scikit-learn's handwritten digits: pictures of shape (1, 8, 8), labels; 1,500 to train on, 297 to test."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32, device=device).unsqueeze(1) / 8 - 1
    labels = torch.tensor(found.target, device=device)
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def enlarged(images, size):
    """Pictures of shape (3, size, size)."""
    return F.interpolate(images, size=size, mode="bilinear").repeat(1, 3, 1, 1)


def picture_batches(images, labels, args):
    """Random pictures, moved by up to a pixel of the original."""
    for _ in range(args.steps):
        chosen = torch.randint(len(labels), (args.batch_size,), device=labels.device)
        down, right = torch.randint(-1, 2, (2,)).tolist()
        yield enlarged(images[chosen].roll((down, right), (2, 3)), args.size), labels[chosen]


def documentation(device):
    """The language reference that ships with Python as one tensor of bytes, cut into nine parts and one."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    data = torch.tensor(list(text), device=device)
    split = int(0.9 * len(data))
    return data[:split], data[split:]


def text_batches(data, steps, args):
    """Random stretches of the text, and the same stretches one character on."""
    reach = torch.arange(args.context + 1, device=data.device)
    for _ in range(steps):
        starts = torch.randint(len(data) - args.context - 1, (args.batch_size, 1), device=data.device)
        stretch = data[starts + reach]
        yield stretch[:, :-1], stretch[:, 1:]


class Clock:
    """Times the steps of a loop without making the GPU wait, and reads off the memory at its peak.

    What the kernels of a step take on the GPU is read in the last steps of the warm-up: it does not depend on how fast
    the processor launches them, as the time of a step does.
    """

    def __init__(self, device):
        self.cuda = device.startswith("cuda")
        self.marks = []
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        self.kernels = {"gpu_ms": None, "kernels": None}

    def steps(self, batches):
        for step, batch in enumerate(batches):
            if step == WARM_UP - PROFILED and self.cuda:
                torch.cuda.synchronize()
                self.profile.start()
            if step == WARM_UP and self.cuda:
                self.read_kernels()
                torch.cuda.reset_peak_memory_stats()
            self.mark()
            yield batch
        self.mark()

    def read_kernels(self):
        """Milliseconds and kernels of a step on the GPU."""
        torch.cuda.synchronize()
        self.profile.stop()
        rows = [row for row in self.profile.key_averages() if row.device_type.name == "CUDA"]
        self.kernels = {
            "gpu_ms": sum(row.self_device_time_total for row in rows) / 1e3 / PROFILED,
            "kernels": sum(row.count for row in rows) / PROFILED,
        }

    def mark(self):
        if self.cuda:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def report(self):
        """Median milliseconds per step after warming up, peak memory in bytes, steps, and the kernels of a step.

        There is no memory and no kernel on a CPU (None).
        """
        peak = None
        if self.cuda:
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated()
            times = [first.elapsed_time(second) for first, second in zip(self.marks, self.marks[1:])]
        else:
            times = [(second - first) * 1e3 for first, second in zip(self.marks, self.marks[1:])]
        ms = statistics.median(times[WARM_UP:] or times)
        return {"ms": ms, "peak": peak, "steps": len(times), **self.kernels}
