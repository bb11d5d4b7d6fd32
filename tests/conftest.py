"""Fixtures for all tests."""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real data and checkpoints; tests that need it are skipped where it is missing."""
    path = Path(os.environ.get("REGARD_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not path.is_dir():
        pytest.skip("the folder with real data is not beside this checkout (set REGARD_SHARED_DATA)")
    return path
