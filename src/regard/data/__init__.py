"""Where training pairs come from, and the batches they become."""

from regard.data.config import DataConfig
from regard.data.sources import Corpus, Pair, Report, load

__all__ = ["Corpus", "DataConfig", "Pair", "Report", "load"]
