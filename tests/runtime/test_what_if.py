"""``what_if``: logs and tables as they lie around, for whoever has no command line at hand."""

import pytest

from fsm_agent import RulesError, what_if
from fsm_agent.runtime.configs import load_rules
from tests.core.replay.logs import named, simulated


def test_one_log_or_several_a_table_by_name_or_as_such():
    _, store = simulated(named("the-same-error-twice"))
    one = what_if(store, "conservative")
    assert what_if([store], load_rules("conservative")) == one
    both = what_if((store, store), "default", params={"retries": 1})
    assert [log.run for log in both.logs] == ["simulation", "simulation"]
    assert both.static[0].params[0].name == "retries"


def test_a_table_that_is_not_sound_is_not_asked(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'schema = 1\n[[row]]\nid = "a"\nwhy = "w"\ndecide = "accept"\nstate = "done"\n'
    )
    _, store = simulated(named("the-same-error-twice"))
    with pytest.raises(RulesError):
        what_if(store, tmp_path / "mine.toml")
