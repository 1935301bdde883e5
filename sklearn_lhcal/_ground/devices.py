"""Where torch computes, and the seeds of its generators."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from sklearn.utils import check_random_state


def check_device(device: str) -> None:
    """Raise a ValueError where CUDA is asked for and absent."""
    if str(device).startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was asked for, but torch finds no CUDA device here; use device='cpu'."
        )


@contextmanager
def seeded(random_state, device: str = "cpu") -> Iterator[None]:
    """torch's generators seeded inside, and as they were afterwards.

    Nothing is seeded where random_state is None.
    """
    if random_state is None:
        yield
        return
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    cuda = [torch.device(device)] if str(device).startswith("cuda") else []
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed would seed every GPU, also those not restored
        torch.default_generator.manual_seed(seed)
        for gpu in cuda:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield
