"""Secrets stop at one place: the core sees references, the tool sees values, messages see neither."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.errors import RefusedError, ValueRefusedError
from fsm_agent.core.language import refs
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import Parameter, ToolSpec, argument_faults, is_secret
from fsm_agent.runtime.secrets.vault import Vault, secret_inputs

CANARY = "c4nary/täg+42"
LOGIN = ToolSpec(
    name="login",
    effect=Effect.READ,
    parameters=(Parameter(name="token", types=("string",)), Parameter(name="user", types=("string",))),
    secret=("token", "session"),
)
PLAIN = ToolSpec(name="plain", effect=Effect.READ, parameters=(Parameter(name="text", types=("string",)),))
TOOLS = (LOGIN, PLAIN)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "$x", 'q"', "é"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def text(value):
    return canon.encode(value).decode() + json.dumps(value, ensure_ascii=False)


@given(JSON)
def test_what_is_hidden_comes_back_exactly_and_private(value):
    vault = Vault()
    hidden = vault.hide_args(LOGIN, {"token": value, "user": "ann"})
    shown = vault.reveal(LOGIN, hidden)
    assert shown == {"token": value, "user": "ann"}
    assert canon.encode(shown) == canon.encode({"token": value, "user": "ann"})


def test_a_secret_leaves_a_reference_with_its_name_and_a_mac():
    hidden = Vault().hide_args(LOGIN, {"token": CANARY, "user": "ann"})
    assert hidden["user"] == "ann"
    assert is_secret(hidden["token"])
    assert hidden["token"]["$secret"] == "token"
    assert len(bytes.fromhex(hidden["token"]["mac"])) == 16
    assert CANARY not in text(hidden)


def test_equal_secrets_look_equal_in_one_run_and_tell_nothing_in_another():
    vault, other = Vault(), Vault()
    args = {"token": "1234", "user": "ann"}
    assert vault.hide_args(LOGIN, args) == vault.hide_args(LOGIN, args)
    assert vault.hide_args(LOGIN, args) != vault.hide_args(LOGIN, {**args, "token": "1235"})
    assert vault.hide_args(LOGIN, args) != other.hide_args(LOGIN, args)


def test_the_shape_of_a_secret_stays_so_that_paths_into_it_still_lead_to_it():
    vault = Vault()
    hidden = vault.hide_result(LOGIN, {"session": {"id": CANARY, "ok": True, "pins": [1234, None]}, "n": 1})
    assert hidden["session"]["ok"] is True
    assert hidden["session"]["pins"][1] is None
    assert hidden["n"] == 1
    assert hidden["session"]["id"]["$secret"] == "session.id"
    assert hidden["session"]["pins"][0]["$secret"] == "session.pins[0]"
    token = refs.parse({"token": "$s1.session.id", "user": "x"}).resolve({"$s1": hidden})
    assert vault.reveal(LOGIN, token)["token"] == CANARY


def test_a_secret_inside_text_comes_back_inside_the_text():
    vault = Vault()
    inputs = vault.hide_inputs({"token": CANARY, "pin": 77}, {"token", "pin"})
    args = refs.parse({"token": "Bearer $inputs.token/$inputs.pin", "user": "x"}).resolve({"$inputs": inputs})
    assert CANARY not in text(args)
    assert vault.reveal(LOGIN, args)["token"] == f"Bearer {CANARY}/77"
    assert vault.hide_args(LOGIN, args) == args, "hiding again changes nothing"


def test_the_argument_check_accepts_a_reference_where_the_tool_declares_a_secret_and_nowhere_else():
    hidden = Vault().hide_args(LOGIN, {"token": CANARY, "user": "ann"})
    assert argument_faults(LOGIN, hidden) == []
    assert argument_faults(LOGIN, {**hidden, "user": hidden["token"]}) == [
        "login: argument 'user' is of type object; allowed: string"
    ]


@pytest.mark.parametrize(
    "value", [{"$secret": 1, "mac": "a"}, {"$secret": "a", "mac": []}, {"$secret": "a"}, "a", None]
)
def test_what_only_resembles_a_reference_is_a_value(value):
    assert not is_secret(value)
    assert Vault().reveal(PLAIN, {"text": value}) == {"text": value}


def test_a_secret_goes_into_no_argument_that_is_not_declared_for_it():
    vault = Vault()
    secret = vault.hide_args(LOGIN, {"token": CANARY})["token"]
    for args in (
        {"text": secret},
        {"text": [{"deep": secret}]},
        {"text": "x" + canon.encode(secret).decode()},
    ):
        with pytest.raises(
            RefusedError, match=r"argument 'text' of plain: it holds the secret token; .*secret=\['text'\]"
        ) as refused:
            vault.reveal(PLAIN, args)
        assert refused.value.code == "E-SECRET"
        assert CANARY not in str(refused.value)


def test_after_a_restart_the_missing_input_is_named_and_giving_it_again_is_enough():
    before = Vault()
    inputs = before.hide_inputs({"login": {"token": CANARY, "tries": 3}, "week": "w46"}, {"login"})
    assert inputs["week"] == "w46"
    args = {"token": inputs["login"]["token"], "user": "ann"}
    after = Vault()
    with pytest.raises(
        RefusedError, match=r"secret inputs.login.token is not kept .* give the input 'login' again"
    ) as refused:
        after.reveal(LOGIN, args)
    assert refused.value.code == "E-SECRET"
    after.give("inputs.login", {"token": "another", "tries": 3})
    assert after.reveal(LOGIN, args) == {"token": "another", "user": "ann"}
    assert after.scrub("no another") == "no «secret:inputs.login.token»"


def test_a_literal_lost_in_a_restart_says_where_it_came_from():
    args = Vault().hide_args(LOGIN, {"token": CANARY})
    with pytest.raises(RefusedError, match="came from a plan or a tool: give 'token' again"):
        Vault().reveal(LOGIN, args)


def test_a_list_given_again_answers_for_each_of_its_parts():
    args = Vault().hide_args(LOGIN, {"token": ["one-secret", None, {"deep": True, "pin": 4321}]})
    after = Vault()
    after.give("token", ["one-secret", None, {"deep": True, "pin": 4321}])
    assert after.reveal(LOGIN, args) == {"token": ["one-secret", None, {"deep": True, "pin": 4321}]}


def test_a_given_secret_must_be_a_value_that_can_be_stored():
    with pytest.raises(ValueRefusedError):
        Vault().give("inputs.token", {"a": float("nan")})


@pytest.mark.parametrize(
    "form",
    [
        f"401 for token {CANARY}!",
        "GET https://x/?t=c4nary%2Ft%C3%A4g%2B42 failed",
        "GET https://x/?t=c4nary/t%C3%A4g%2B42 failed",
        f"KeyError({CANARY!r})",
        f"bad body {json.dumps({'t': CANARY})}",
    ],
)
def test_messages_do_not_show_a_secret_in_any_usual_spelling(form):
    vault = Vault()
    vault.hide_args(LOGIN, {"token": CANARY})
    scrubbed = vault.scrub(form)
    assert "«secret:token»" in scrubbed
    assert "c4nary" not in scrubbed


def test_the_longer_of_two_secrets_is_replaced_first_and_tiny_ones_are_left():
    vault = Vault()
    vault.hide_args(LOGIN, {"token": ["abc", "abcdef", "x", 12, 98765]})
    shown = vault.scrub("abcdef abc x 12 98765")
    assert shown == "«secret:token[1]» «secret:token[0]» x 12 «secret:token[4]»"


@given(st.integers(3, len(CANARY)))
def test_a_secret_that_a_cut_message_ends_in_is_not_half_shown(kept):
    vault = Vault()
    vault.hide_args(LOGIN, {"token": CANARY})
    assert vault.scrub("it was " + CANARY[:kept], cut=True) == "it was «secret:token»"


def test_a_cut_message_that_ends_in_no_secret_stays():
    vault = Vault()
    vault.hide_args(LOGIN, {"token": CANARY})
    assert vault.scrub("it was fine", cut=True) == "it was fine"


def test_a_vault_without_secrets_leaves_everything_as_it_is():
    vault = Vault()
    value = {"a": ["text", 1]}
    assert vault.mask(value) is value
    assert vault.scrub("text", cut=True) == "text"
    assert vault.hide_result(PLAIN, value) is value
    assert repr(vault) == "<Vault of 0 secrets>"


@pytest.mark.parametrize(
    "echo",
    [CANARY, f"Bearer {CANARY}", ["x", {"y": CANARY}], {"by": {CANARY: 1}}],
)
def test_a_result_that_echoes_a_known_secret_hides_that_text_and_gives_it_back_exactly(echo):
    vault = Vault()
    vault.hide_args(LOGIN, {"token": CANARY})
    hidden = vault.hide_result(PLAIN, {"echo": echo, "id": 7})
    assert "c4nary" not in text(hidden)
    assert hidden["id"] == 7
    assert vault.reveal(LOGIN, {"token": hidden["echo"]}) == {"token": echo}


def test_a_short_secret_is_not_found_by_accident_in_a_result():
    vault = Vault()
    vault.hide_args(LOGIN, {"token": "1234"})
    assert vault.mask({"ticket": "R-12345"}) == {"ticket": "R-12345"}


DOC = {
    "goal": "g",
    "inputs": {"token": CANARY, "week": "w46", "cred": {"id": 5}},
    "steps": [
        {"id": "a", "tool": "login", "args": {"token": "$inputs.token", "user": "$inputs.week"}},
        {"id": "b", "tool": "login", "args": {"token": "lit$$eral", "user": "ann"}},
        {
            "id": "c",
            "tool": "plain",
            "args": {"text": "t"},
            "alternatives": [
                {"tool": "login", "args": {"token": "altern"}},
                {"tool": "plain", "args": {"text": "t"}},
            ],
        },
        {
            "id": "d",
            "tool": "plain",
            "args": {"token": {"x": "shared", "y": "$inputs.cred.id"}},
            "alternatives": [{"tool": "login", "args": {"token": {"x": "shared", "y": "$inputs.cred.id"}}}],
        },
        {
            "id": "e",
            "plan": {"steps": [{"id": "f", "tool": "login", "args": {"token": "nested ${inputs.late}"}}]},
        },
        {"id": "g", "description": "by the default tool", "args": {"session": ["default", True]}},
        {"id": "h", "tool": "unknown", "args": {"token": "open"}},
        {"id": "i", "description": "nothing"},
        {
            "id": "j",
            "tool": "login",
            "args": {"token": "$a.session.id"},
            "alternatives": [{"tool": "plain", "args": {"text": "t"}}],
        },
    ],
}


def test_the_inputs_that_secret_arguments_refer_to_are_secret():
    assert secret_inputs(DOC, TOOLS, "login") == {"token", "cred", "late"}
    assert secret_inputs({"steps": []}, TOOLS) == frozenset()
    whole = {
        "inputs": {"p": 1, "q": 2},
        "steps": [{"id": "a", "tool": "login", "args": {"token": "$inputs"}}],
    }
    assert secret_inputs(whole, TOOLS) == {"p", "q"}


def test_a_plan_loses_its_literal_secrets_and_keeps_everything_else():
    vault = Vault()
    before = canon.encode(DOC)
    hidden = vault.hide_plan(DOC, TOOLS, "login")
    assert canon.encode(DOC) == before, "the given document is not touched"
    steps = {step["id"]: step for step in hidden["steps"]}
    assert hidden["inputs"]["week"] == "w46"
    assert is_secret(hidden["inputs"]["token"])
    assert is_secret(hidden["inputs"]["cred"]["id"])
    assert steps["a"] == DOC["steps"][0]
    assert vault.reveal(LOGIN, steps["b"]["args"]) == {"token": "lit$eral", "user": "ann"}
    assert steps["c"]["args"] == {"text": "t"}
    assert is_secret(steps["c"]["alternatives"][0]["args"]["token"])
    assert steps["c"]["alternatives"][1] == {"tool": "plain", "args": {"text": "t"}}
    assert is_secret(steps["d"]["args"]["token"]["x"])
    assert steps["d"]["args"]["token"]["y"] == "$inputs.cred.id"
    assert steps["d"]["alternatives"][0]["args"] == steps["d"]["args"]
    assert steps["e"] == DOC["steps"][4]
    assert is_secret(steps["g"]["args"]["session"][0])
    assert steps["g"]["args"]["session"][1] is True
    assert steps["h"] == DOC["steps"][6]
    for secret in (CANARY, "lit$", "altern", "shared", "default"):
        assert f'"{secret}' not in text(hidden).replace("alternatives", "")
    assert vault.hide_plan(hidden, TOOLS, "login") == hidden, "hiding twice is hiding once"


def test_a_hidden_plan_resolves_to_arguments_that_the_tool_gets_in_full():
    vault = Vault()
    hidden = vault.hide_plan(DOC, TOOLS)
    scope = {"$inputs": hidden["inputs"]}
    step = hidden["steps"][0]
    assert vault.reveal(LOGIN, refs.parse(step["args"]).resolve(scope)) == {"token": CANARY, "user": "w46"}


def test_a_plan_without_inputs_or_secrets_stays_equal():
    doc = {"steps": [{"id": "a", "tool": "plain", "args": {"text": "x"}}]}
    assert Vault().hide_plan(doc, TOOLS) == doc


@pytest.mark.parametrize(
    "result",
    [
        {CANARY: 1},
        {f"of {CANARY}": {"x": 1}, "user": "u"},
        {"session": {CANARY: 1}},
        {"session": [{f"{CANARY}!": "s3ss10n"}]},
        {"more": {CANARY: 1}},
    ],
)
@pytest.mark.parametrize("tool", [LOGIN, PLAIN], ids=["declares", "declares-nothing"])
def test_a_known_secret_that_is_a_key_of_a_result_does_not_reach_the_log(result, tool):
    vault = Vault()
    vault.hide_args(LOGIN, {"token": CANARY})
    hidden = vault.hide_result(tool, result)
    assert CANARY.encode() not in canon.encode(hidden)
    assert vault.reveal(LOGIN, {"token": hidden}) == {"token": result}
