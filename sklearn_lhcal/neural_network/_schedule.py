"""Learning rates by the epoch."""

from torch.optim.lr_scheduler import LambdaLR


class WarmUpMultiStepLR(LambdaLR):
    """Learning rate that rises linearly at first, and is multiplied by `gamma` at each milestone.

    Use it with skorch: ``callbacks=[skorch.callbacks.LRScheduler(WarmUpMultiStepLR, warm_up=5)]``.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    warm_up : int, default=5
        Epochs of the rise: the first has 1/warm_up of the learning rate.
    milestones : tuple of int, default=(50, 100, 150)
        Epochs at whose end the rate falls; those of P1 for its largest data set.
    gamma : float, default=0.1
    last_epoch : int, default=-1
        Where to resume; skorch sets it.

    Examples
    --------
    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> scheduler = WarmUpMultiStepLR(optimizer, warm_up=2, milestones=(3,))
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates.append(round(scheduler.get_last_lr()[0], 6))
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.5, 1.0, 1.0, 0.1]
    """

    def __init__(self, optimizer, warm_up=5, milestones=(50, 100, 150), gamma=0.1, last_epoch=-1):
        super().__init__(optimizer, _Rate(warm_up, tuple(milestones), gamma), last_epoch)


class _Rate:
    """A function of the epoch that can be pickled."""

    def __init__(self, warm_up, milestones, gamma):
        self.warm_up, self.milestones, self.gamma = warm_up, milestones, gamma

    def __call__(self, epoch: int) -> float:
        return min(1.0, (epoch + 1) / max(self.warm_up, 1)) * self.gamma ** sum(epoch >= m for m in self.milestones)
