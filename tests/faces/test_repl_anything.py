"""Whatever is typed: one line of answer or an error of ours, never a fault of the program; nothing that only looks changes anything."""

import asyncio
import io

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core.audit.audit import audit
from fsm_agent.faces.frame.screen import Screen
from fsm_agent.faces.repl.completion import Known, complete, ghost
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.faces.repl.interpreter import Interpreter, repeats
from fsm_agent.faces.table.prompt import ALIASES, AT_PROMPT

LEFT_OUT = {"plan make", "key", "simulate", "quit"}
"""What asks a model, or takes long, or ends the session."""
VERBS = st.sampled_from(
    [*(name for name in AT_PROMPT if name not in LEFT_OUT), *ALIASES, "rules", "nonsense"]
)
PIECES = st.one_of(
    st.sampled_from(
        [
            *(
                "T1",
                "T2",
                "T3",
                "T9",
                "r1",
                "default",
                "desk",
                "1",
                "3",
                "99",
                "-1",
                "0",
                "&",
                "until",
                "rm",
                "all",
            ),
            *(
                "--digest",
                "--at",
                "-m",
                "--as",
                "applied",
                "absent",
                "--evidence",
                "--result",
                "--rules",
                "--format",
            ),
            *(
                "guest=Bea",
                "total=1",
                "total=x",
                "budgets.tokens=5",
                "=",
                "a=",
                "{}",
                '{"decide":"retry"}',
                "[1",
                "'",
            ),
            *(
                "state=done",
                "signal=*",
                "decision=accept",
                "budget.tool_calls<90%",
                "T3:done",
                "--json",
                "--help",
                "-q",
            ),
        ]
    ),
    st.text(max_size=8),
)
LINES = st.tuples(VERBS, st.lists(PIECES, max_size=4)).map(lambda parts: " ".join([parts[0], *parts[1]]))
LOADED = {
    "name": "load",
    "values": {
        "plan": "desk",
        "tools": None,
        "rules": None,
        "params": {},
        "inputs": {},
        "run_id": "r1",
        "review": False,
        "repairs": None,
        "planner": None,
        "workers": 2,
    },
}


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=5))
def test_no_line_is_a_fault_of_the_program(cli, lines):
    async def session():
        screen = Screen(out=io.StringIO(), err=io.StringIO(), store=":memory:", quiet=True)
        desk = Desk(screen)
        interpreter = Interpreter(desk)
        try:
            assert (await interpreter.begin(**LOADED)).failure is None
            for line in lines:
                if "-f" in line.split() or "--follow" in line.split():
                    continue  # follows until the run ends
                before = desk.opened().head("r1")
                done = await interpreter.perform(line)
                assert done.exit_code != 70, (line, screen.err.getvalue())
                assert "E-INTERNAL" not in screen.err.getvalue()
                if done.row is not None and repeats(done.row) and desk.run_id == "r1":
                    assert desk.opened().head("r1") == before, line
                known = Known(run=desk.view(), runs=desk.runs())
                assert all(found.typed <= len(line) for found in complete(line, known))
                assert isinstance(ghost(line + " "), str)
            if desk.run_id == "r1":
                store = desk.opened()
                found = audit("r1", store.read("r1"), store.blob, head=store.head("r1"))
                assert found.findings == (), found.findings
        finally:
            await desk.close()

    asyncio.run(session())
