"""Through a real call, the tool sees the secret and nobody else does."""

import asyncio

import pytest

from fsm_agent.core.inputs import Returned
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.context import CallContext, Reconciled, ToolError
from fsm_agent.runtime.tools.toolbox import Toolbox
from tests.runtime.calling import Shell, box

CANARY = "c4nary-token-42"


def secretly(fn, effect="read", **options):
    """Call ``tool(token)`` with a hidden token; return what was reported, and the vault."""

    async def main():
        tools = box(effect, secret=["token", "session"], **options)(fn)
        async with Shell(tools) as shell:
            args = shell.vault.hide_args(tools.specs[0], {"token": CANARY})
            assert CANARY not in str(args)
            shell.start("tool", **args)
            heard = [await shell.next()]
            while not isinstance(heard[-1], Returned):
                heard.append(await shell.next())
            shell.probe("tool", **args)
            heard.append(await shell.next())
            return heard, shell.vault, tools.specs[0]

    return asyncio.run(main())


def test_the_tool_gets_the_secret_and_nobody_else_does():
    seen = []

    def tool(token: str, *, ctx: CallContext):
        seen.append(token)
        ctx.progress(note=f"logged in with {token}")
        return {"session": f"s-{token}", "echo": [f"Bearer {token}"], "id": 4}

    def find(token: str):
        return Reconciled.applied({"session": token}, why=f"found by {token}")

    heard, vault, spec = secretly(tool, reconcile=find)
    assert seen == [CANARY]
    assert CANARY not in str(heard)
    progress, returned, answer = heard
    assert progress.note == "logged in with «secret:token»"
    assert returned.outcome.value["id"] == 4
    assert vault.reveal(spec, {"token": returned.outcome.value["session"]}) == {"token": f"s-{CANARY}"}
    assert answer.evidence == "found by «secret:token»"


@pytest.mark.parametrize(
    "error",
    [
        lambda t: ValueError(f"401 for {t}"),
        lambda t: ToolError(t, f"the code is {t}"),
        lambda t: ValueError("x" * 2040 + t),
        KeyError,
        lambda t: ExceptionGroup(t, [ValueError(t)]),
    ],
)
def test_no_error_shows_a_secret_not_even_half_of_it(error):
    def tool(token):
        raise error(token)

    heard, *_ = secretly(tool, reconcile=tool)
    assert CANARY not in str(heard)
    assert "c4nary" not in str(heard)


def test_a_secret_in_an_argument_that_is_not_declared_for_it_is_refused_before_the_call():
    calls = []
    tools = Toolbox()

    @tools.write
    def send(text):
        calls.append(text)

    async def main():
        async with Shell(tools) as shell:
            shell.vault.give("inputs.token", CANARY)
            hidden = shell.vault.hide_inputs({"token": CANARY}, ["token"])["token"]
            shell.start("send", text=hidden)
            outcome = await shell.outcome()
            assert (outcome.signal, outcome.applied) == (Signal.AUTH_DENIED, Applied.NO)
            assert outcome.error["code"] == "E-SECRET"
            assert "argument 'text' of send: it holds the secret inputs.token" in outcome.error["message"]

    asyncio.run(main())
    assert calls == []


def test_after_a_restart_a_call_without_its_secret_names_the_input_to_give_again():
    tools = box("write", secret=["token"])(lambda token: token)
    args = {"token": Vault().hide_inputs({"token": CANARY}, ["token"])["token"]}

    async def main():
        async with Shell(tools) as shell:
            shell.start("tool", **args)
            outcome = await shell.outcome()
            assert (outcome.signal, outcome.applied) == (Signal.AUTH_DENIED, Applied.NO)
            assert "give the input 'token' again" in outcome.error["message"]
            shell.vault.give("inputs.token", CANARY)
            shell.start("tool", attempt=2, **args)
            assert (await shell.outcome()).kind == "value"

    asyncio.run(main())


def test_the_type_of_a_secret_is_checked_where_its_value_is_known():
    def tool(token: str): ...

    tools = box("write", secret=["token"])(tool)

    async def main():
        async with Shell(tools) as shell:
            shell.start("tool", **shell.vault.hide_args(tools.specs[0], {"token": 123456}))
            outcome = await shell.outcome()
            assert outcome.signal is Signal.BAD_REQUEST
            assert "argument 'token' is of type integer; allowed: string" in outcome.error["message"]

    asyncio.run(main())
