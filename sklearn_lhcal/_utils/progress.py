"""Progress bars that leave no thread behind."""

from tqdm.auto import tqdm


class Progress(tqdm):
    """A bar that is drawn when something happens, without the thread that watches slow ones."""

    monitor_interval = 0
