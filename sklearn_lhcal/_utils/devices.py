"""Where torch computes, and settings and seeds of torch that belong to one block of code.

Torch is not imported for the sake of its settings: before it is, nobody has changed them.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import RLock

from sklearn.utils import check_random_state


def check_device(device: str) -> None:
    """Raise a ValueError where CUDA is asked for and absent."""
    import torch

    if str(device).startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was asked for; torch finds no CUDA device here; use device='cpu'."
        )


@contextmanager
def recorded() -> Iterator[None]:
    """Within, gradients are recorded, also where the caller has switched them off."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    with torch.inference_mode(False), torch.enable_grad():
        yield


def on_host(a):
    """A tensor of a GPU as one of the CPU, which NumPy reads; all else as it is."""
    return a.cpu() if hasattr(a, "is_cuda") else a


def moved(parts, device: str):
    """A named tuple with its tensors on a device."""
    return type(parts)(*(a.to(device) if hasattr(a, "is_cuda") else a for a in parts))


def on_cpu() -> AbstractContextManager:
    """Within, tensors that name no device are on the CPU, whatever torch's default device is."""
    torch = sys.modules.get("torch")
    # a context of its own costs time at each call of torch
    if torch is None or torch.get_default_device().type == "cpu":
        return nullcontext()
    return torch.device("cpu")


# All threads of a process draw from the same generators.
_one_at_a_time = RLock()


@contextmanager
def seeded(random_state, device: str = "cpu") -> Iterator[None]:
    """Within, torch's global generators follow a seed; then they are put back.

    Such blocks wait for each other, so that seeds hold in threads too. What another thread draws
    outside of one, at the same time, is not kept apart. Nothing is done where random_state is None.
    """
    if random_state is None:
        yield
        return
    import torch

    check_device(device)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    gpus = [torch.device(device)] if str(device).startswith("cuda") else []
    with _one_at_a_time, torch.random.fork_rng(gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield
