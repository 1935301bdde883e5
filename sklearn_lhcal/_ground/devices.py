"""Where torch computes, and settings and generators of random numbers that belong to one block of
code.
"""

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from inspect import currentframe

import torch
from sklearn.utils import check_random_state
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode


def check_device(device: str) -> None:
    """Raise a ValueError where CUDA is asked for and absent."""
    if str(device).startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was asked for, but torch finds no CUDA device here; use "
            "device='cpu'."
        )


@contextmanager
def recorded() -> Iterator[None]:
    """Within, gradients are recorded, also where the caller has switched them off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def on_cpu() -> Iterator[None]:
    """Within, tensors that name no device are on the CPU, whatever torch's default device is."""
    # a context of its own costs time at each call of torch
    if torch.get_default_device().type == "cpu":
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def seeded(random_state, device: str = "cpu") -> Iterator[None]:
    """Within, what torch draws in this thread comes from generators of the block's own.

    torch's global generators are neither read nor changed, so that other threads may draw and seed
    at the same time. Nothing is done where random_state is None. Not seen, and still drawn from the
    global generators: what TorchScript, `torch.compile` or the backward pass draw inside, and
    dropout in attention kernels of CUDA.
    """
    if random_state is None:
        yield
        return
    check_device(device)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    with _OwnGenerators(seed):
        yield


def unwatched() -> AbstractContextManager[None]:
    """Within, nothing is drawn, and what torch does costs as much as it does without `seeded`."""
    return torch._C.DisableTorchFunction()


# names of torch's functions that draw, or that call one that does; too many cost only time
_DRAWING = re.compile(
    "rand|normal|uniform|bernoulli|dropout|multinomial|exponential|geometric|cauchy|poisson|gamma"
    "|dirichlet|binomial|rrelu|gumbel|fractional|attention|lstm|gru|rnn|kaiming|xavier|orthogonal"
    "|sparse_|lowrank|lobpcg"
)


@cache
def _may_draw(name: str) -> bool:
    return _DRAWING.search(name) is not None


def _check_drawn_once() -> None:
    """ValueError within a checkpoint.

    A checkpoint draws again in the backward pass, where no mode is on.
    """
    frame = currentframe()
    while frame is not None:
        if frame.f_globals is vars(checkpoint):
            raise ValueError(
                "random_state cannot be honoured inside torch.utils.checkpoint, which draws random "
                "numbers, such as those of dropout, twice. Use random_state=None."
            )
        frame = frame.f_back


class _OwnGenerators(TorchFunctionMode):
    """Sees each function of torch that Python calls in this thread, and picks those that draw."""

    def __init__(self, seed: int):
        super().__init__()
        self._draws = _Draws(seed)
        # workers of a DataLoader, forked inside the block, are seeded by torch
        self._process = os.getpid()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # all arithmetic passes here
        if not _may_draw(func.__name__) or os.getpid() != self._process:
            return func(*args, **kwargs)
        _check_drawn_once()
        if kwargs.get("generator") is torch.default_generator:
            kwargs = kwargs | {"generator": None}
        with self._draws:
            return func(*args, **kwargs)


class _Draws(TorchDispatchMode):
    """Gives each random operation of torch a generator, one for each device."""

    def __init__(self, seed: int):
        super().__init__()
        self.seed = seed
        self.generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        device = _device(args, kwargs)
        if device.type == "meta":
            return func(*args, **kwargs)
        generator = self._generator(device)
        if func is torch.ops.aten.native_dropout.default:
            return _dropout(*args, generator=generator)
        func = _with_generator(func)
        names = [argument.name for argument in func._schema.arguments]
        if "generator" not in names:
            return func(*args, **kwargs)
        if (dict(zip(names, args, strict=False)) | kwargs).get("generator") is not None:
            return func(*args, **kwargs)
        return func(*args[: names.index("generator")], **kwargs | {"generator": generator})

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]


@cache
def _with_generator(func):
    """The same operation with a generator among its arguments; itself where there is none."""
    names = [argument.name for argument in func._schema.arguments]
    packet = func.overloadpacket
    for overload in map(partial(getattr, packet), packet.overloads()):
        others = [argument.name for argument in overload._schema.arguments]
        if "generator" in others and [name for name in others if name != "generator"] == names:
            return overload
    return func


def _device(args: tuple, kwargs: dict) -> torch.device:
    """Where an operation draws."""
    device = kwargs.get("device")
    if device is None:
        device = next((a.device for a in args if isinstance(a, torch.Tensor)), "cpu")
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _dropout(x, p, train, *, generator):
    """aten::native_dropout, the output and the mask."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return x * mask * (0.0 if p == 1 else 1 / (1 - p)), mask
