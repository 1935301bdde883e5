"""What several files of tests start from; a file with a fixture of that name has its own."""

import numpy as np
import pytest

from sklearn_lhcal.datasets import make_label_histograms


@pytest.fixture
def data():
    """Three classes, one to six raters a row."""
    return make_label_histograms(300, n_classes=3, n_raters=(1, 6), total=3.0, random_state=0)


@pytest.fixture
def logits(data):
    """Overconfident, with a constant for each row."""
    return 2.5 * np.log(data.prediction) + np.arange(300)[:, None] / 100


@pytest.fixture(scope="module")
def pool():
    """Rows with true distributions of votes, and an overconfident prediction."""
    return make_label_histograms(4000, 3, 1, total=6.0, overconfidence=2.0, random_state=0)
