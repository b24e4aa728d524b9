"""What the chapter on merged key and query claims."""

from conftest import close

from iclcore.studies import merged


def test_abrupt_drop():
    facts = merged.abrupt_drop("quick").facts
    close(facts["theory_end"], 0.1359950716, within=1e-9)
    assert facts["floor"] <= facts["end"] < 0.15 < 0.9 < facts["start"]
    assert facts["apart_end"] < 0.01 and 500 < facts["drop_step"] < 1500


def test_white_course():
    facts = merged.white_course("quick").facts
    assert (
        facts["gap"] < 0.05 and 1.9 < facts["gap_ratio"] < 2.1
    )  # first order in the learning rate
    close(facts["data_end"], facts["theory_end"], within=0.02)  # 500 sequences


def test_drop_times():
    found = merged.drop_times("paper")
    assert len(found.inits) == 7  # six decades
    for spectrum in found.measured:
        slope, theory = (found.facts[f"{spectrum}_decade{end}"] for end in ("", "_theory"))
        close(slope, theory, within=2e-3)  # first order in the learning rate, 0.005
    close(found.measured["white"], found.predicted["white"], within=2e-3)


def test_phase_plane():
    assert merged.phase_plane("quick").facts["furthest"] < 1e-9
