"""Bad inputs by a generator of its own, which reads nothing but the public signatures."""

import importlib.util
import signal
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / ".ci" / "bad_inputs.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there are no alarms on this system")
def test_none_is_accepted():
    """One round over all arguments; ``python .ci/bad_inputs.py`` tries 20,000."""
    spec = importlib.util.spec_from_file_location("bad_inputs", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    tried, accepted, odd = tool.run(6000, seed=1, verbose=False)
    assert tried >= 6000
    assert not accepted, accepted
    assert not odd, odd
