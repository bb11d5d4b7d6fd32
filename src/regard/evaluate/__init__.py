"""How good a model is: scores of translations."""

from regard.evaluate.translation import describe, exact_match, moses, translation_scores

__all__ = ["describe", "exact_match", "moses", "translation_scores"]
