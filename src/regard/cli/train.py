"""`regard train`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="The recipe (see recipes/).")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe's key; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="The run's folder [runs/NAME].")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Train a model as a recipe says, and score it.

    The run's folder gets the resolved recipe, the model, checkpoints, a log and the loss curve. An interrupted run goes
    on with --resume.

    \b
    Example:
      regard train recipes/multi30k-en-de.toml --set train.minutes=30 --set seed=2
    """
    from regard.train.run import train

    result = train(recipe, changes or (), out=out, resume=resume, quiet=quiet)
    if as_json:
        fields = {"folder": str(result.folder), "reason": result.reason, "updates": result.updates}
        print(json.dumps(fields | {"seconds": result.seconds, "nll": result.nll, "scores": result.scores}))
    else:
        print(result.folder)
