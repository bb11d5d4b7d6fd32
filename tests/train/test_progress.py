"""What a run shows."""

import io

from rich.console import Console

from regard.train.progress import Display, clock, describe

FIGURES = {"update": 40, "loss": 2.34567, "tokens_per_second": 4876.4, "padding": 0.063, "lr": 0.00123}


def test_one_line_holds_the_figures():
    assert describe(FIGURES) == "update 40 | loss 2.346 | 4,876 tokens/s | padding 6% | lr 1.23e-03"
    assert [clock(s) for s in (0, 90, 4000)] == ["0:00", "1:30", "1:06:40"]


def shown(terminal, quiet=False, every=1000.0):
    file = io.StringIO()
    with Display(quiet, every, Console(file=file, force_terminal=terminal, width=160)) as display:
        for _ in range(3):
            display.show(FIGURES, 0.25, 60.0)
        display.say("a message")
    return file.getvalue()


def test_off_a_terminal_a_plain_line_now_and_then():
    assert shown(False) == f"{describe(FIGURES)} | 25%, 3:00 left\na message\n"
    assert shown(False, every=0.0).count("update 40") == 3


def test_quiet_leaves_messages_only():
    assert shown(False, quiet=True) == "a message\n"
    assert shown(True, quiet=True) == "a message\n"


def test_on_a_terminal_a_live_line():
    text = shown(True)
    assert "\x1b[" in text
    assert "update 40" in text
    assert "3:00 left" in text
