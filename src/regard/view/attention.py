"""Who attends to whom: a model's attention to one text, as a picture or a page."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import spec as S
from regard.errors import InputError
from regard.nn.hook import record
from regard.view import page, plots
from regard.view.maps import PAGE, PICTURE, Limits, Maps, Place, choose, fit, grouped

LONGEST = 2048
"""Tokens on an axis; the weights of a head then take 16 MiB while they are recorded."""

AT_ONCE = 32_000_000
"""Weights recorded in one forward pass (128 MB); for more, the pass is repeated for some layers at a time."""

_NAME = re.compile(
    r"(?:(encoder|decoder)\.)?stack\.layers\.(\d+)\.(cross_attention|attention)(?:_(\d+))?\.attend\.probs"
)

KINDS = {
    ("encoder", "attention"): "Encoder self-attention",
    ("decoder", "attention"): "Decoder self-attention",
    ("decoder", "cross_attention"): "Cross-attention",
    (None, "attention"): "Self-attention",
}


@dataclass(frozen=True)
class Saved:
    """What was written: the file, the target text attended over (None: no translator), the notes in the picture."""

    path: Path
    target: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Map:
    """One map that can be recorded: head `place.head` of what the `turn`-th run of a hook point gives."""

    kind: str
    point: str
    turn: int
    place: Place


@dataclass(frozen=True)
class _Pass:
    """A forward pass over the text; axes: {kind: (rows, columns, row axis, column axis)}."""

    run: Callable[[], Any]
    axes: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]]
    title: str
    target: str | None = None


def save(
    model: Any,
    text: str,
    output_path: str | os.PathLike[str],
    target: str | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Saved:
    """Draws the attention of `model` to `text`: PNG or SVG heat maps, or one HTML page, by the name's suffix.

    A translator's encoder, decoder and cross-attention are drawn; of other models the self-attention. The decoder's
    rows are named by the token that is being written there, its columns by the tokens read so far.

    Args:
        text: the source of a translator, or the text itself.
        target: the translation to attend over (None: the model's own, greedily).
        layers, heads: only these, numbered from 0 (None: all that fit).

    Raises:
        InputError: an unknown suffix, layer or head, no tokenizer, or a text that is empty or too long.
    """
    path = Path(output_path)
    if path.suffix.lower() not in (*plots.SUFFIXES, ".html"):
        raise InputError(f"attention: cannot write {path.name}: the name must end in .png, .svg or .html")
    limits = PAGE if path.suffix.lower() == ".html" else PICTURE
    kinds, side, title, target, notes = look(model, text, target, layers, heads, limits)
    if limits is PAGE:
        notes = page.write(kinds, path, title, notes, side)
    else:
        notes = plots.heat_maps(kinds, path, title, notes)
    return Saved(path, target, tuple(notes))


def look(
    model: Any,
    text: str,
    target: str | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    limits: Limits = PAGE,
) -> tuple[list[Maps], int, str, str | None, list[str]]:
    """The maps that `save` draws, the longest axis, a title, the target, and notes; arguments and errors as there."""
    every = _maps(model)
    kept = set(choose([m.place for m in every], layers, heads))
    places = {kind: [m.place for m in every if m.kind == kind and m.place in kept] for kind in KINDS.values()}
    chosen, side, notes = fit({kind: found for kind, found in places.items() if found}, limits)
    trained = model.training
    model.eval()
    try:
        with torch.inference_mode():
            run = _translation(model, text, target) if isinstance(model.spec, S.EncoderDecoder) else _text(model, text)
            wanted = [m for m in every if m.place in chosen.get(m.kind, ())]
            kinds, more = _recorded(model, run, wanted, side)
    finally:
        model.train(trained)
    return kinds, side, run.title, run.target, notes + more


def _maps(model: Any) -> list[_Map]:
    """Everything that can be recorded, encoder first."""
    found = []
    for name, _ in model.named_modules():
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        tower, layer, role, number = match.groups()
        stack = (getattr(model, tower) if tower else model).stack
        turns = stack.order.count(int(layer))
        attention = model.get_submodule(name.removesuffix(".attend.probs"))
        for turn in range(turns):
            extra = (f" no. {number}" if number else "") + (f", run {turn + 1}" if turns > 1 else "")
            places = [Place(int(layer), head, extra) for head in range(attention.heads)]
            found += [_Map(KINDS[tower, role], name, turn, place) for place in places]
    if not found:
        raise InputError("attention: the model has no attention layers to look at")
    return found


def _recorded(model: Any, run: _Pass, wanted: Sequence[_Map], side: int) -> tuple[list[Maps], list[str]]:
    """Runs the pass and keeps the wanted maps, with long axes grouped at once so that not all are held in full."""
    shown: dict[str, Maps] = {}
    notes: dict[str, None] = {}
    for points in _portions(run, wanted):
        with record(model, *points) as acts:
            run.run()
        for m in wanted:
            if m.point in points:
                values = acts[m.point]
                value = values[m.turn] if isinstance(values, list) else values
                weights = {m.place: value[0, m.place.head].float().cpu().numpy()}
                small, more = grouped(Maps(m.kind, *run.axes[m.kind], weights), side)
                shown.setdefault(m.kind, small).weights.update(small.weights)
                notes.update(dict.fromkeys(more))
    return [shown[kind] for kind in run.axes if kind in shown], list(notes)


def _portions(run: _Pass, wanted: Sequence[_Map]) -> list[list[str]]:
    """The hook points, split so that no pass records more than AT_ONCE weights (or one point's)."""
    sizes: dict[str, int] = {}
    for m in wanted:
        rows, columns, *_ = run.axes[m.kind]
        sizes[m.point] = sizes.get(m.point, 0) + len(rows) * len(columns)
    portions: list[list[str]] = [[]]
    room = AT_ONCE
    for point, size in sizes.items():
        if size > room and portions[-1]:
            portions.append([])
            room = AT_ONCE
        portions[-1].append(point)
        room -= size
    return portions


def _translation(model: Any, text: str, target: str | None) -> _Pass:
    """The decoder reads the start token and the target; the row of each token read is named by the one written next."""
    tokenizer = _tokenizer(model)
    from regard.generate import translate
    from regard.generate.prompts import source_ids

    reader = model.source_tokenizer or tokenizer
    source = source_ids(model, [text])[0]
    _checked(source[:-1])  # without the end token, which an empty text has too
    if target is None:
        ids = translate(model, [text], beams=1)[0][0].ids
        target = tokenizer.decode(ids)
    else:
        ids = [*tokenizer.encode(target), tokenizer.end_id]
    inputs = _checked([tokenizer.start_id, *ids[:-1]])
    words, written, read = (tuple(t.pieces(i)) for t, i in ((reader, source), (tokenizer, ids), (tokenizer, inputs)))
    batch = torch.tensor([source], device=model.device), torch.tensor([inputs], device=model.device)
    axes = {
        "Encoder self-attention": (words, words, "source token that looks (query)", "source token looked at (key)"),
        "Decoder self-attention": (written, read, "target token being written", "target token looked at (key)"),
        "Cross-attention": (written, words, "target token being written", "source token looked at (key)"),
    }
    title = f"Attention: {_line(text)} → {_line(target)}"
    return _Pass(lambda: model(batch[1], source=batch[0], hidden=True), axes, title, target)


def _text(model: Any, text: str) -> _Pass:
    tokenizer = _tokenizer(model)
    ids = _checked(tokenizer.encode(text))
    pieces = tuple(tokenizer.pieces(ids))
    batch = torch.tensor([ids], device=model.device)
    axes = {"Self-attention": (pieces, pieces, "token that looks (query)", "token looked at (key)")}
    return _Pass(lambda: model(batch, hidden=True), axes, f"Attention: {_line(text)}")


def _tokenizer(model: Any) -> Any:
    if model.tokenizer is None:
        raise InputError("attention: the model has no tokenizer; load one whose folder has tokenizer.json")
    return model.tokenizer


def _checked(ids: list[int]) -> list[int]:
    if not 1 <= len(ids) <= LONGEST:
        what = "is empty" if not ids else f"has {len(ids):,} tokens, more than the {LONGEST:,} that can be shown"
        raise InputError(f"attention: the text {what}; give a {'longer' if not ids else 'shorter'} one")
    return ids


def _line(text: str) -> str:
    return " ".join(text.split())
