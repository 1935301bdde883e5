"""Figures for pages about tasks: one thing each, on data of a second."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from colours import BLUE, GREEN, ORANGE, PURPLE, RAW, SCALED, VERMILLION
from scipy.special import expit
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

from sklearn_lhcal.calibration import TemperatureScaling
from sklearn_lhcal.datasets import make_label_histograms, make_random_checkerboard
from sklearn_lhcal.display import RaterDisplay, ReliabilityDisplay
from sklearn_lhcal.distributions import Dirichlet
from sklearn_lhcal.gaussian_process import SparseGPClassifier
from sklearn_lhcal.label_histogram import Annotations, LabelHistogramClassifier
from sklearn_lhcal.metrics import confidence_interval, irreducible_loss, label_log_loss, model_risk
from sklearn_lhcal.model_selection import BallCarvingSplit
from sklearn_lhcal.neural_network import LabelLogLoss

DOTTED = {"color": "0.35", "linestyle": (0, (1, 1.5))}


def axes(width=4.8, height=3.8):
    return plt.subplots(figsize=(width, height))[1]


def concentration():
    """One probability, known more or less well."""
    ax = axes()
    q = np.linspace(0.001, 0.999, 400)
    for total, color, line in ((4, ORANGE, "-"), (20, GREEN, "--"), (200, PURPLE, "-.")):
        row = Dirichlet.from_mean([[0.3, 0.7]], [total])
        words = f"α0 = {total}: raters disagree with probability {row.disagreement()[0]:.2f}"
        density = beta.pdf(q, 0.7 * total, 0.3 * total)
        ax.plot(q, density, color=color, linestyle=line, label=words)
    point = 1 - 0.3**2 - 0.7**2
    ax.axvline(0.7, **DOTTED, label=f"no spread: {point:.2f}")
    ax.set(xlabel="True probability of the class", ylabel="Density", ylim=(0, 14))
    ax.figure.legend(fontsize="small", loc="outside lower center")


def epochs():
    """The log loss of a network on its own samples and on others."""
    data = make_label_histograms(1300, 4, n_features=8, n_raters=3, total=4.0, random_state=0)
    X = torch.tensor((data.X - data.X[:300].mean(0)) / data.X[:300].std(0)).float()
    counts = torch.tensor(data.counts).float()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    loss, optimizer = LabelLogLoss(), torch.optim.Adam(net.parameters(), lr=0.01)
    found = []
    for _ in range(60):
        with torch.no_grad():
            z = net(X).softmax(1).double().numpy()
        found.append([label_log_loss(data.counts[s], z[s]) for s in (slice(300), slice(300, None))])
        for rows in torch.randperm(300).split(128):
            optimizer.zero_grad()
            loss(net(X[rows]), counts[rows]).backward()
            optimizer.step()
    train, test = np.transpose(found)
    ax = axes(4.8, 3.4)
    ax.plot(train, "--", color=BLUE, label="training samples")
    ax.plot(test, color=VERMILLION, label="1,000 new samples")
    best = int(test.argmin())
    ax.plot(best, test[best], "o", color=VERMILLION, label=f"best: {best} epochs")
    ax.set(xlabel="Epochs of training", ylabel="Log loss per label (nats)")
    ax.legend(fontsize="small")


def patients():
    """Folds that tear patients apart, and folds that do not."""
    rng = np.random.default_rng(0)
    people = make_label_histograms(600, n_features=40, total=1.0, random_state=0)
    patient = np.repeat(np.arange(600), 6)
    images = people.X[patient] + 0.3 * rng.standard_normal((3600, 40))
    votes = rng.multinomial(3, people.proba[patient])
    known = rng.permutation(np.flatnonzero(patient < 100))
    new = np.flatnonzero(patient >= 100)
    data, inside = (images[known], votes[known]), LogisticRegression(max_iter=1000)
    models = {
        "uncalibrated": (LabelHistogramClassifier(inside).fit(*data), RAW),
        "without groups": (TemperatureScaling(inside).fit(*data), ORANGE),
        "with groups": (TemperatureScaling(inside).fit(*data, groups=patient[known]), SCALED),
    }
    ax = axes(4.8, 4.8)
    for name, (model, color) in models.items():
        ReliabilityDisplay.from_predictions(
            votes[new],
            model.predict_proba(images[new]),
            kind=0,
            groups=patient[new],
            n_bins=8,
            name=name,
            ax=ax,
            line_kwargs={"color": color},
        )


def coverage():
    """Thirty studies of five raters each, and both intervals of each."""
    rng = np.random.default_rng(0)
    _, both = plt.subplots(2, 1, figsize=(4.8, 5), sharex=True, sharey=True)
    truth = 2 * 0.7 * 0.3
    missed = {"fixed": 0, "random": 0}
    for study in range(30):
        said_one = rng.random((200, 5)) < rng.uniform(0.5, 0.9, 5)
        y = Annotations.from_matrix(said_one.astype(int))
        for ax, raters in zip(both, missed, strict=True):
            found = confidence_interval(irreducible_loss, y, None, raters=raters, random_state=0)
            misses = not found.low <= truth <= found.high
            missed[raters] += misses
            color = VERMILLION if misses else "0.5"
            ax.plot([study, study], [found.low, found.high], color=color, linewidth=2.5)
            ax.plot(study, found.estimate, ".", color=color)
    words = {"fixed": "for these five raters", "random": "for raters like them"}
    for ax, (raters, n) in zip(both, missed.items(), strict=True):
        ax.axhline(truth, **DOTTED)
        ax.set_title(f'raters="{raters}", {words[raters]}: {n} of 30 miss', fontsize=10)
        ax.set(ylabel="Disagreement (95%)", ylim=(0, 1))
    both[1].set(xlabel="Study", xticks=[])


def rater_study():
    """The readers of the page, and its model."""
    rng = np.random.default_rng(1)
    n = 300
    ill = rng.random(n) < 0.4
    hard = rng.normal(size=n)
    skill = np.append(0.4 * rng.normal(size=6), 0.2)
    right = rng.random((n, 7)) < expit((1.6 - hard)[:, None] + skill)
    finding = np.where(right == ill[:, None], "tumour", "cyst")
    reads = rng.random((n, 6)).argsort(axis=1) < 5
    said = np.where(reads, finding[:, :6], None)
    people = ["Abe", "Bea", "Cyd", "Dov", "Eli", "Fay"]
    y = Annotations.from_matrix(said, raters=people)
    how = {"margin": 0.05, "random_state": 0, "ax": axes(5, 4.2)}
    RaterDisplay.from_predictions(y, finding[:, 6], **how)


def price():
    """What the decision of two samples costs after some labels."""
    costs = np.array([[0.0, 1.0], [3.0, 0.0]])  # to wait, to treat
    ax = axes(4.8, 3.6)
    rows = {
        "one label can change the decision": ([3.0, 0.6], BLUE, "o"),
        "only two labels together can": ([4.5, 0.4], ORANGE, "s"),
    }
    for name, (alpha, color, marker) in rows.items():
        row = Dirichlet([alpha])
        found = [expected_cost(row, costs, m) for m in range(6)]
        gain = found[0] - np.array(found)
        ax.plot(gain, marker=marker, color=color, label=name)
    ax.set(xlabel="Labels of the sample", ylabel="Expected drop of the cost (unit of the costs)")
    ax.legend(fontsize="small")


def expected_cost(row: Dirichlet, costs, m: int) -> float:
    """Mean cost of the best decision after m labels of a sample of two classes."""
    if m == 0:
        return float(model_risk(row, costs))
    z = row.mean()[0]
    after = [row.posterior(np.eye(2, dtype=int)[[k]]) for k in range(2)]
    return sum(z[k] * expected_cost(after[k], costs, m - 1) for k in range(2))


def carving():
    """Balls that were carved out of the training data."""
    X, y = make_random_checkerboard(3000, n_rows=10, n_columns=10, cell_std=0.25, random_state=0)
    splitter = BallCarvingSplit(keep_fraction=(0, 0.1), random_state=0)
    train, augmented, test = splitter.split_augmented(X, y)
    away = np.setdiff1d(augmented, train)
    ax = axes(4.8, 4.8)
    looks = {
        "training": (train, "0.7", "."),
        "taken away: augmented samples only": (away, ORANGE, "s"),
        "test": (test, BLUE, "^"),
    }
    for name, (rows, color, marker) in looks.items():
        ax.plot(*X[rows].T, marker, color=color, markersize=3, label=name)
    ax.set(xlabel="First feature", ylabel="Second feature", aspect="equal")
    ax.figure.legend(loc="outside lower center", fontsize="small", markerscale=2)


def gap():
    """Where a Gaussian process does not know."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (400, 2))
    X = X[np.abs(X[:, 0]) > 1]
    positive = rng.binomial(3, expit(2 * np.sin(2 * X[:, 1])))
    counts = np.column_stack([3 - positive, positive])
    gp = SparseGPClassifier(n_inducing=100, random_state=0).fit(X, counts)
    at = np.linspace(-4, 4, 41)
    grid = np.stack(np.meshgrid(at, at), axis=-1)
    told = gp.predict_dist(grid.reshape(-1, 2)).mutual_information().reshape(41, 41)
    ax = axes(5, 4.2)
    shades = ax.contourf(at, at, told, levels=10, cmap="cividis")
    ax.plot(*X.T, ".", color="white", markersize=2)
    ax.figure.colorbar(shades, label="Epistemic: mutual information (nats)")
    ax.set(xlabel="First feature", ylabel="Second feature", aspect="equal")
