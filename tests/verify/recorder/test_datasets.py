"""Made-up pictures for data sets that are not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amp_migrate.verify.recorder.standin.datasets import SHAPES, make_up
from amp_migrate.verify.runs.process import RunResult

pytest.importorskip("torchvision")
Record = Callable[..., RunResult]


@pytest.mark.parametrize("name", SHAPES)
def test_pictures_are_the_same_every_time_and_differ_between_training_and_test(name: str) -> None:
    shape = SHAPES[name]
    pictures, labels = make_up(shape, 64, training=True)
    again, _ = make_up(shape, 64, training=True)
    other, _ = make_up(shape, 64, training=False)
    assert pictures.shape == (64, shape.height, shape.width, shape.channels)
    assert (pictures == again).all()
    assert (pictures != other).any()
    assert set(labels) <= set(range(shape.classes))


def test_the_nearest_mean_of_a_class_tells_the_pictures_apart() -> None:
    pictures, labels = make_up(SHAPES["MNIST"], 2000, training=True)
    unseen, truth = make_up(SHAPES["MNIST"], 200, training=False)
    means = [pictures[labels == number].reshape(-1, 784).mean(0) for number in range(10)]
    guesses = [min(range(10), key=lambda n: ((one.ravel() - means[n]) ** 2).sum()) for one in unseen.astype(float)]
    assert sum(a == b for a, b in zip(guesses, truth, strict=True)) > 190


@pytest.mark.slow
def test_data_sets_work_as_torchvision_s_own_and_are_named(record: Record) -> None:
    result = record(
        """
        from torchvision import datasets, transforms
        whole = transforms.ToTensor()
        before = torch.rand(1)
        for made in (
            datasets.MNIST("data", train=True, download=True, transform=whole),
            datasets.FashionMNIST("data", False, whole),
            datasets.CIFAR100("data", download=True, transform=whole),
            datasets.SVHN("data", split="test", transform=whole),
            datasets.ImageFolder("data/train", whole),
        ):
            picture, label = made[5]
            print(type(made).__name__, len(made), tuple(picture.shape), type(label).__name__, len(made.classes))
        """,
        synthetic=True,
    )
    assert result.ended_well, result.log.read_text()
    lines = (result.folder / "stdout.log").read_text().splitlines()
    assert lines == [
        "MNIST 4096 (1, 28, 28) int 10",
        "FashionMNIST 1024 (1, 28, 28) int 10",
        "CIFAR100 4096 (3, 32, 32) int 100",
        "SVHN 1024 (3, 32, 32) int 10",
        "ImageFolder 1024 (3, 256, 256) int 10",
    ]
    assert result.trace.synthetic == ("CIFAR100", "FashionMNIST", "ImageFolder", "MNIST", "SVHN")
    assert not (result.folder / "data").exists()


@pytest.mark.slow
def test_the_script_s_random_numbers_stay_what_they_are(record: Record) -> None:
    text = """
    import numpy
    from torchvision import datasets
    torch.manual_seed(1)
    numpy.random.seed(1)
    try:
        datasets.MNIST("data", train=True)
    except RuntimeError:
        pass
    print(torch.rand(1).item(), numpy.random.rand())
    """
    seen = [record(text, synthetic=synthetic) for synthetic in (True, False)]
    assert len({(result.folder / "stdout.log").read_text() for result in seen}) == 1


@pytest.mark.slow
def test_without_the_option_missing_data_is_the_script_s_own_failure(record: Record) -> None:
    result = record("from torchvision import datasets\ndatasets.MNIST('data')\n")
    assert not result.ended_well
    assert "Dataset not found" in result.complaint
