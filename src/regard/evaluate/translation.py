"""Scores of translations: BLEU, chrF, exact match, each with what is needed to repeat it.

BLEU is a share of matching n-grams of tokens, so a BLEU without its tokeniser means nothing. Three are given:

- `bleu`: cased, on detokenised text, with sacrebleu's own tokeniser; comparable between systems and papers
  (arXiv:1804.08771). Its signature says everything.
- `bleu_lowercased`: the same with `-lc`.
- `bleu_moses`: punctuation normalised, lowercased and split as the Moses scripts do (through `sacremoses`), then
  sacrebleu without a tokeniser: the "tokenised, lowercased BLEU" of papers on Multi30k (the German side of test2016
  then has the 12,103 tokens that they count; 13a makes 12,106). Only where sacremoses is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from regard.errors import InputError


def translation_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", language: str | None = None
) -> dict[str, Any]:
    """All scores of a system's translations against one reference each, as plain data.

    Args:
        tokenize: sacrebleu's tokeniser for `bleu` and `bleu_lowercased`: "13a", "intl", "zh", "ja-mecab", "char", ...
        language: of the target ("de"), for the Moses tokeniser; None: no `bleu_moses`.

    Returns:
        {"bleu", "chrf": 0 .. 100, "exact": 0 .. 1, "bleu_lowercased", "bleu_moses", "<score>_signature": str,
        "<bleu>_detail": {"precisions": 4 numbers, "brevity", "hypothesis_tokens", "reference_tokens"}, "sentences"}

    Raises:
        InputError: no sentences, or not as many references as hypotheses.
    """
    if len(hypotheses) != len(references):
        raise InputError(f"got {len(hypotheses)} hypotheses and {len(references)} references; give one for each")
    if not hypotheses:
        raise InputError("there are no sentences to score; the file is empty")
    scores: dict[str, Any] = {"sentences": len(hypotheses), "exact": exact_match(hypotheses, references)}
    _add(scores, "bleu", BLEU(tokenize=tokenize), hypotheses, references)
    _add(scores, "bleu_lowercased", BLEU(tokenize=tokenize, lowercase=True), hypotheses, references)
    if language is not None and importlib.util.find_spec("sacremoses") is not None:
        split = [moses(texts, language) for texts in (hypotheses, references)]
        _add(scores, "bleu_moses", BLEU(tokenize="none", lowercase=True, force=True), *split)
        scores["bleu_moses_signature"] += f"|pre:moses-norm-lc-tok-{language}-sacremoses-{_version('sacremoses')}"
    chrf = CHRF()
    scores["chrf"] = chrf.corpus_score(list(hypotheses), [list(references)]).score
    scores["chrf_signature"] = str(chrf.get_signature())
    return scores


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of hypotheses that are their reference, character for character."""
    return sum(a == b for a, b in zip(hypotheses, references, strict=True)) / len(hypotheses)


def moses(texts: Sequence[str], language: str) -> list[str]:
    """Texts with normalised punctuation, in lower case, split by the Moses tokeniser (not escaped: `&` stays `&`)."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [tokenizer.tokenize(normalizer.normalize(t).lower(), return_str=True, escape=False) for t in texts]


def describe(scores: dict[str, Any]) -> str:
    """The scores in lines for people, with their signatures."""
    lines = []
    for name, label in (
        ("bleu", "BLEU (cased, detokenised)"),
        ("bleu_lowercased", "BLEU (lowercased)"),
        ("bleu_moses", "BLEU (lowercased, Moses tokens)"),
    ):
        if name in scores:
            detail = scores[f"{name}_detail"]
            parts = "/".join(f"{p:.1f}" for p in detail["precisions"])
            sizes = f"{detail['hypothesis_tokens']:,} of {detail['reference_tokens']:,} tokens"
            lines.append(f"{label}: {scores[name]:.2f}  ({parts}, brevity {detail['brevity']:.3f}, {sizes})")
            lines.append(f"    {scores[f'{name}_signature']}")
    lines += [f"chrF: {scores['chrf']:.2f}", f"    {scores['chrf_signature']}"]
    lines.append(f"Exact matches: {scores['exact']:.1%} of {scores['sentences']:,} sentences")
    return "\n".join(lines)


def _add(scores: dict[str, Any], name: str, metric: BLEU, hypotheses: Sequence[str], references: Sequence[str]) -> None:
    result: BLEUScore = metric.corpus_score(list(hypotheses), [list(references)])
    scores[name] = result.score
    scores[f"{name}_signature"] = str(metric.get_signature())
    scores[f"{name}_detail"] = {
        "precisions": result.precisions,
        "brevity": result.bp,
        "hypothesis_tokens": result.sys_len,
        "reference_tokens": result.ref_len,
    }


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)
