"""The page of claims: every number comes from a chapter, every claim has a verdict, every flag exists."""

import re
from pathlib import Path

import pytest
import said

from iclcore.cli.flags import build_parser

PAGE = (Path(__file__).resolve().parent.parent / "book" / "claims.md").read_text()
VERDICTS = ("holds", "not covered", "not known here")


def rows(name):
    """The cells of a table's rows, by its name."""
    table = re.search(rf":name: {name}\n\n(.+?)\n(?:```|:::)", PAGE, re.DOTALL)[1].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_every_number_is_a_chapters():
    for what in said.SAID.findall(PAGE):
        assert re.search(r"\d", said.number(what)), what
    for table in re.findall(r":name: (tab:claims-(?:first|second)\S*)", PAGE):
        for row in rows(table):
            typed = re.sub(r"`[^`]+`|\$[^$]+\$", "", row[2])  # but for roles, code and symbols
            assert not re.search(r"\d*\.\d", typed), typed


def test_a_number_that_no_chapter_quotes_is_refused():
    assert said.number("rank_one.levels").startswith("1.0000, 0.6406")
    assert said.number("rank_one.levels[1]") == "0.6406"
    for wrong, names in (
        ("rank_one.level", "levels"),
        ("rank.levels", "rank_one"),
        ("levels", "CHAPTER.NAME"),
    ):
        with pytest.raises(ValueError, match=names):
            said.number(wrong)


def test_every_claim_has_a_verdict_and_what_holds_a_place():
    for table in ("first", "first-figures", "second", "second-figures"):
        for claim, where, _, verdict in rows(f"tab:claims-{table}"):
            assert verdict.startswith(VERDICTS), claim
            assert not verdict.startswith("holds") or "{" in where, claim


def test_every_published_flag_is_there():
    """The names are those of the published code and of its instructions; the command takes each."""
    names = "model head_num head rank KQ_dim init in_dim out_dim seq_len white_cov vary_len icl softmax "
    names += "cubic_feat trainset_size testset_size testset epoch lr seed track_value show"
    named = {flag for row in rows("tab:claims-flags") for flag in re.findall(r"`(--\w+)`", row[0])}
    assert named == {f"--{name}" for name in names.split()}
    assert named <= set(
        build_parser()._subparsers._group_actions[0].choices["train"]._option_string_actions
    )
