"""`regard attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model's folder.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to look at; the source, for a translator.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="The picture: FILE.png, FILE.svg or FILE.html.")
    ] = Path("attention.png"),
    target: Annotated[
        str | None, typer.Option("--target", help="Attend over this translation, not the model's own.")
    ] = None,
    layers: Annotated[
        list[int] | None, typer.Option("--layer", help="Only this layer, from 0; may be repeated.")
    ] = None,
    heads: Annotated[list[int] | None, typer.Option("--head", help="Only this head, from 0; may be repeated.")] = None,
) -> None:
    """Draw heat maps of self- and cross-attention.

    \b
    Example:
      regard attention runs/demo "Je t'aime." -o attention.html
    """
    import regard
    from regard.view import attention

    attention.save(regard.load(model), text, out, target=target, layers=layers, heads=heads)
    print(out)
