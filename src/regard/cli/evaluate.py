"""`regard evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder.")],
    source: Annotated[Path, typer.Option("--source", metavar="FILE", help="Source sentences, one a line.")],
    reference: Annotated[Path, typer.Option("--reference", metavar="FILE", help="Their translations, line by line.")],
    beam: Annotated[int, typer.Option("--beam", help="Hypotheses searched; 1 is greedy.")] = 5,
    length_penalty: Annotated[
        float, typer.Option("--length-penalty", help="score = log-probability / length ** penalty.")
    ] = 1.0,
    max_length: Annotated[
        int | None, typer.Option("--max-length", help="Tokens a translation may have [from the source's length].")
    ] = None,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", help="Source tokens a batch.")] = 4096,
    tokenize: Annotated[
        str, typer.Option("--tokenize", help="sacreBLEU's tokeniser: 13a, intl, zh, char, ...")
    ] = "13a",
    language: Annotated[
        str | None, typer.Option("--language", help="Target language, such as de: adds BLEU on Moses tokens.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the translations here, one a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Translate a test set and print its BLEU and chrF.

    The scores are those of sacreBLEU, with their signatures. Files may be plain or .gz.

    \b
    Example:
      regard evaluate runs/multi30k-en-de --source test.en --reference test.de --out test.hyp
    """
    import regard
    from regard.cli.translate import one_line
    from regard.data.sources import aligned
    from regard.evaluate import describe, translation_scores
    from regard.files import write_text
    from regard.generate import translate

    pairs = list(aligned(source, reference))
    found = translate(
        regard.load(model),
        [pair.source for pair in pairs],
        beams=beam,
        length_penalty=length_penalty,
        max_length=max_length,
        batch_tokens=batch_tokens,
    )
    texts = [hypotheses[0].text for hypotheses in found]
    if out is not None:
        write_text(out, "".join(f"{one_line(text)}\n" for text in texts))
    scores = translation_scores(texts, [pair.target for pair in pairs], tokenize, language)
    print(json.dumps(scores) if as_json else describe(scores))
