"""One word for one thing: words that must not come back, in docstrings, messages and pages."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "sklearn_lhcal").rglob("*.py"))
# built pages, and the one that lists these words
LEFT_OUT = ("_build", "_templates", "api", "auto_examples", "notation.rst")
PAGES = [
    ROOT / "README.md",
    *(
        p
        for p in sorted((ROOT / "doc").rglob("*.rst"))
        if p.relative_to(ROOT / "doc").parts[0] not in LEFT_OUT
    ),
]
# what must not come back, and what stands for it
WORDS = {
    r"\bas (it|they) came\b": "uncalibrated",
    r"\bmade (data|rows|samples|up)\b": "simulated data",
    r"\btoo sure\b": "overconfident",
    r"\bnot above the noise\b": "not distinguishable from 0",
    r"\btakes? off the noise\b": "bias-corrected",
    r"\b[Pp]lugin\b": "plug-in",
    r"\bbest constant decision\b": "best default decision",
    r"\bself-assessed\b": "expected cost as the model estimates it",
    r"\b([Ll]abellers?|[Cc]olleagues?)\b": "rater",
    r"\b[Vv]otes?\b": "label",
    r"\bworth \w+ readers\b": "equivalent number of readers",
    r"\bnotion\b": "kind",
    r"\b(Ruler|Priced|tariff|unsaid)\b": "costs, undefined_reason",
    r"\bdear(er|est)?\b": "expensive",
    r"\b[Ff]loors?\b(?! ?[=:])": "uniform mixing",
    r"\b([Tt]he|[Aa]n?|[Ii]ts|[Tt]heir) (affine |scaling )?maps?\b": "calibration method",
    r"\bis no mean\b": "is not a mean",
    r"(?<![\w.\d)\]'\"/*])\.\d": "0.05",
    r"\d %(?![\d(sr.])": "95%",
    r"(?<![\d.])\d{1,3} 000\b": "10,000",
}
CODE = re.compile(r"``.*?``|`[^`]*`|:\w+:`.*?`|\{[^{}]*\}|<.*?>", re.S)


def strings(tree):
    """(line, text) of docstrings without their examples, and of messages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            lines = node.value.split("\n")
            kept = [line for line in lines if not line.strip().startswith((">>>", "..."))]
            yield node.lineno, "\n".join(kept)


def running_text(page):
    """A page without its blocks of code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    block = r"^( *)\.\. (code-block|math|csv-table|literalinclude|meta)::.*\n((?:\1 +.*\n|[ ]*\n)*)"
    return re.sub(block, "", text, flags=re.M)


def found(text):
    """The words of a text that must not stand there, with what stands for them."""
    text = CODE.sub(" ", text)
    return [(m[0], new) for old, new in WORDS.items() for m in re.finditer(old, text)]


def test_words_of_docstrings_and_messages():
    wrong = [
        (str(source.relative_to(ROOT)), line, *pair)
        for source in SOURCES
        for line, text in strings(ast.parse(source.read_text(encoding="utf-8")))
        for pair in found(text)
    ]
    assert not wrong


def test_words_of_pages():
    wrong = [(str(page.relative_to(ROOT)), *found(running_text(page))) for page in PAGES]
    assert [page for page in wrong if len(page) > 1] == []


def test_old_words_are_found():
    assert found("The model as it came loses .05 of the labels.")
    assert not found("The uncalibrated model loses 0.05 of the labels, see ``votes``.")


def test_names_that_were_replaced_stay_away():
    """In code, pages, tests and benchmarks: one name for one thing."""
    replaced = (
        r"reader_(comparison|table)|Reader(Display|Effects|Comparison|Table)|make_reader_study"
        r"|\bfloor(_weight_|_\b|=)|hidden_layer_sizes|solver=(LBFGS|Newton|Adam)"
        r"|DisagreementReliabilityDisplay|SecondOpinionDisplay|LabelPolicyDisplay"
        r"|EpistemicGainDisplay|plot_cost_curves|from_monitor|from_estimators"
        r"|distance=.(ordinal|interval)\b"
    )
    folders = ("sklearn_lhcal", "tests", "benchmarks", "examples", "doc")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*.py")]
    wrong = [
        (str(path.relative_to(ROOT)), match[0])
        for path in [*files, *PAGES]
        if path != Path(__file__)
        and "auto_examples" not in path.parts
        and "_build" not in path.parts
        for match in re.finditer(replaced, path.read_text(encoding="utf-8"))
    ]
    assert not wrong
