"""`regard demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

TEXT = "Je t'aime"
TRY_NEXT = """
Try next:
  regard translate {folder} "Est-ce que tu vois les petits chats noirs ?" --beam 5 --n-best 3
  regard attention {folder} "Nous ne mangeons pas la pomme rouge." -o attention.html
  regard inspect {folder} --batch 32"""


def command(
    folder: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The run's folder.")] = Path("runs/demo"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a small translator in minutes, and try it.

    It learns French to English from the built-in phrasebook, in about 3 minutes, and is tested on combinations of words
    that it never saw together. Run again, it goes straight to translating; interrupted, it goes on where it was.

    \b
    Example:
      regard demo
    """
    import regard
    from regard.generate import translate
    from regard.view import attention, trace

    results = folder / "results.json"
    if results.exists():
        print(f"{folder} is trained already (delete it to train again).")
    else:
        from regard.train.run import train

        print(f"Training on the built-in French-English phrasebook, into {folder}.", flush=True)
        train(recipe(), out=folder, resume=(folder / "recipe.toml").exists(), quiet=quiet)
    print(summary(json.loads(results.read_text(encoding="utf-8"))))
    model = regard.load(folder)
    best = translate(model, [TEXT])[0][0]
    print(f'\nTranslating "{TEXT}":\n\n{trace.render(trace.trace(model, TEXT, best))}\n')
    picture = folder / "attention.png"
    attention.save(model, TEXT, picture)
    print(f"Who looked at whom: {picture}\nThe loss curve:     {folder / 'loss.png'}")
    print(TRY_NEXT.format(folder=folder))


def summary(results: dict[str, Any]) -> str:
    """What the run reached, in words."""
    lines = [f"Trained for {results['updates']:,} updates, {results['seconds'] / 60:.1f} minutes."]
    for name, scores in results["scores"].items():
        lines.append(f"On {name}: {scores['exact']:.1%} exact matches, BLEU {scores['bleu']:.1f}.")
    return "\n".join(lines)


def recipe() -> Path:
    """The demo's recipe.

    Raises:
        InputError: this is an installation without the repository's recipes.
    """
    import regard
    from regard.errors import InputError

    path = Path(regard.__file__).resolve().parents[2] / "recipes" / "demo.toml"
    if not path.is_file():
        raise InputError(
            "recipes/demo.toml is not beside this installation; run the demo from a clone of the repository"
        )
    return path
