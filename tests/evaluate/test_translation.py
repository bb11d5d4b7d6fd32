"""Scores of translations, against values worked out by hand or counted in papers."""

import gzip
import math
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.evaluate import describe, exact_match, moses, translation_scores


def test_values_by_hand() -> None:
    """5 tokens against 6: 4/5, 3/4, 2/3, 1/2 of the n-grams match, brevity exp(1 - 6/5)."""
    scores = translation_scores(["the cat sat on tables"], ["the cat sat on a table"])
    detail = scores["bleu_detail"]
    assert detail["precisions"] == pytest.approx([80, 75, 200 / 3, 50])
    assert detail["brevity"] == pytest.approx(math.exp(-0.2))
    assert (detail["hypothesis_tokens"], detail["reference_tokens"]) == (5, 6)
    geometric = (0.8 * 0.75 * 2 / 3 * 0.5) ** 0.25
    assert scores["bleu"] == pytest.approx(100 * geometric * math.exp(-0.2))
    assert scores["exact"] == 0.0


def test_case_and_signatures() -> None:
    scores = translation_scores(["Je T'AIME bien, Marie."], ["je t'aime bien, marie."], language="fr")
    assert scores["bleu"] < 50
    assert scores["bleu_lowercased"] == pytest.approx(100)
    assert "case:mixed" in scores["bleu_signature"] and "tok:13a" in scores["bleu_signature"]
    assert "case:lc" in scores["bleu_lowercased_signature"]
    assert scores["chrf_signature"].startswith("nrefs:1|")
    text = describe(scores)
    assert scores["bleu_signature"] in text and "BLEU (lowercased): 100.00" in text


def test_exact_match() -> None:
    assert exact_match(["a", "b", "c ", "d"], ["a", "b", "c", "D"]) == 0.5
    assert translation_scores(["a b c d"], ["a b c d"])["bleu"] == pytest.approx(100)


def test_moses_counts_what_the_papers_count(shared_data: Path) -> None:
    """Papers on Multi30k count 12,103 tokens on the German side of test2016."""
    pytest.importorskip("sacremoses")
    path = shared_data / "multi30k" / "test_2016_flickr.de.gz"
    lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    assert len(lines) == 1000
    assert sum(len(line.split()) for line in moses(lines, "de")) == 12_103
    scores = translation_scores(lines, lines, language="de")
    assert scores["bleu_moses_detail"]["reference_tokens"] == 12_103
    assert scores["bleu_detail"]["reference_tokens"] == 12_106
    assert "pre:moses-norm-lc-tok-de-sacremoses-" in scores["bleu_moses_signature"]


def test_moses_keeps_entities_unescaped() -> None:
    pytest.importorskip("sacremoses")
    assert moses(["AT&T „Hallo“, Welt."], "de") == ['at & t " hallo " , welt .']


def test_bad_input() -> None:
    with pytest.raises(InputError, match="2 hypotheses and 1 references"):
        translation_scores(["a", "b"], ["a"])
    with pytest.raises(InputError, match="no sentences"):
        translation_scores([], [])
