from importlib.util import find_spec

import pytest

# Without PyTorch these modules cannot even be imported; "make test-torch" runs them.
collect_ignore_glob = ["test_*.py"] if find_spec("torch") is None else []


@pytest.fixture(autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
