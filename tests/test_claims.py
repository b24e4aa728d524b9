"""The page of claims: every number from a chapter, all that is known of the papers named, a verdict each."""

import re
from pathlib import Path

import pytest
import said

from iclcore.cli.flags import build_parser
from iclcore.models import MergedAttention
from iclcore.sweep import Plan
from iclcore.task import RegressionTask

PAGE = (Path(__file__).resolve().parent.parent / "book" / "claims.md").read_text()
VERDICTS = ("holds", "not covered", "not known here")
SECOND = """Theorem 1|Definition 1|Lemma 1|Theorem 2|Lemma 2|Theorem 3|Definition 2|Theorem 4|Corollary 1|
Proposition 1"""  # all whose kind and number are known of its 87


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


def test_all_that_is_known_of_the_papers_is_named():
    first = [row[0] for row in rows("tab:claims-first-figures")]
    assert [re.match(r"\d+(?: to 14)?", each)[0] for each in first] == [*"12345", "6 to 14"]
    second = [row[0] for row in rows("tab:claims-second-figures")]
    assert [re.match(r"\d(?: and 7)?", each)[0] for each in second] == [*"12345", "6 and 7"]
    claims = [row[0].partition(":")[0] for row in rows("tab:claims-second")]
    known = SECOND.replace("\n", "").split("|")
    assert [claim for claim in claims if claim in known] == known


def test_every_published_flag_is_there_with_its_default():
    """The names are those of the published code and of its instructions; defaults as a plan has them."""
    names = "model head_num head rank KQ_dim init in_dim out_dim seq_len white_cov vary_len icl softmax "
    names += "cubic_feat trainset_size testset_size testset epoch lr seed track_value show"
    named = {}
    for row in rows("tab:claims-flags"):
        named |= dict.fromkeys(re.findall(r"`--(\w+)`", row[0]), row[1].strip("`"))
    assert sorted(named) == sorted(names.split())
    options = vars(build_parser().parse_args(["train"]))
    plan = Plan(RegressionTask(), MergedAttention())
    own = {
        "lr": plan.lr,
        "in_dim": plan.task.dim,
        "out_dim": plan.task.outputs,
        "icl": plan.task.in_context,
    }
    own |= {"seq_len": plan.task.context + 1, "trainset_size": plan.sequences}
    own |= {"testset_size": plan.tests, "testset": plan.tests}
    same = {"head_num": "heads", "head": "heads", "KQ_dim": "rank", "vary_len": "every_length"}
    same |= {"epoch": "steps", "track_value": "values", "white_cov": "spectrum"}
    for name, default in named.items():
        value = own[name] if name in own else options[same.get(name, name)]
        if isinstance(value, str):
            assert default == value, name
        else:
            assert default == ("off" if not value and name not in own else f"{value:g}"), name
