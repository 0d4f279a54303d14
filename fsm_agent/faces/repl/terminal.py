"""The prompt at a terminal: completion, hints, history, a line of state, and what an interruption means.

Ctrl-C at the prompt clears the line. While a run is driven, the first one pauses it, the second one stops waiting for
what is out, whose effects are then not known any more, and the third one leaves at once, as a crash would.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition as When
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style

from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.inputs import Ask
from fsm_agent.faces.frame import places
from fsm_agent.faces.frame.failure import fail
from fsm_agent.faces.frame.screen import short
from fsm_agent.faces.repl.completion import Known, complete, ghost
from fsm_agent.faces.repl.desk import Desk
from fsm_agent.faces.repl.history import history
from fsm_agent.faces.repl.interpreter import Done, Interpreter, repeats
from fsm_agent.faces.repl.printing import Printer
from fsm_agent.faces.repl.showing import event_line, prompt, toolbar
from fsm_agent.faces.repl.words import commands
from fsm_agent.version import VERSION

INTERRUPTED: Final = 130
_STYLE: Final = Style.from_dict({"bottom-toolbar": "noreverse #888888", "ghost": "#888888"})


async def sit(desk: Desk, first: tuple[str, dict[str, Any]] | None) -> int:
    """Let a person type until they leave; return the exit code."""
    return await Terminal(desk).sit(first)


class Terminal:
    """A person at a terminal."""

    def __init__(self, desk: Desk) -> None:
        """Show and read at *desk*."""
        self._desk = desk
        self._screen = screen = desk.screen
        self._interpreter = Interpreter(desk)
        self._presses = 0
        self._last: str = ""
        printer = Printer(self._write, lambda event: event_line(event, desk.run_id or "", screen))
        desk.listeners.append(printer.listen)
        desk.before_showing = printer.flush
        desk.ask = self._ask
        desk.write = self._write
        depth = None if screen.colour else ColorDepth.DEPTH_1_BIT
        self._session: PromptSession[str] = PromptSession(
            completer=_Completer(desk),
            complete_while_typing=False,
            history=history(desk),
            bottom_toolbar=self._toolbar,
            style=_STYLE,
            color_depth=depth,
            input_processors=[
                ConditionalProcessor(AfterInput(self._ghost, style="class:ghost"), When(self._at_end))
            ],
            enable_history_search=True,
        )
        self._asking: PromptSession[str] = PromptSession(color_depth=depth)

    async def sit(self, first: tuple[str, dict[str, Any]] | None) -> int:
        """Read and carry out lines until the person leaves."""
        screen, desk = self._screen, self._desk
        screen.complain(f"fsm_agent {VERSION}, store {screen.store}. help lists what can be typed.")
        with patch_stdout(raw=True):  # for tools that print; what is shown here writes to the terminal itself
            if first is not None:
                done = await self._foreground(self._interpreter.begin(*first))
                if done is not None and done.failure is not None:
                    return done.exit_code
            while not desk.over:
                try:
                    line = await self._session.prompt_async(lambda: prompt(desk.view(), screen))
                except KeyboardInterrupt:
                    await self._pause_behind()
                    continue
                except EOFError:
                    line = "quit"
                await self._type(line)
        return 0

    async def _type(self, line: str) -> None:
        """Carry out a line; an empty one does once more what only looks."""
        try:
            found = commands(line) or ([self._last] if self._last and not line.strip() else [])
        except FsmAgentError as error:
            fail(self._screen, error)
            return
        for one in found:
            done = await self._foreground(self._interpreter.perform(one))
            self._last = one if done is not None and done.row is not None and repeats(done.row) else ""
            if done is None or done.failure is not None or self._desk.over:
                return

    # ── interruptions ─────────────────────────────────────────────────────────────────────────────────────────

    async def _foreground(self, work: Coroutine[Any, Any, Done]) -> Done | None:
        """Wait for *work*, and for what Ctrl-C makes of it; None if it was interrupted."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        self._presses = 0
        loop.add_signal_handler(signal.SIGINT, self._pressed, task)
        try:
            return await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            await self._given_up()
            return None
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._desk.settle()

    def _pressed(self, task: asyncio.Task[Done]) -> None:
        """Take Ctrl-C while something is going on."""
        self._presses += 1
        controller = self._desk.controller
        if self._presses > 2:
            self._screen.complain(
                f"left at once; go on with: fsm-agent repl {self._desk.run_id or ''}{self._screen.typed}"
            )
            os._exit(INTERRUPTED)  # as a crash would: whatever is durable is kept, and nothing else was told
        driving = controller is not None and bool(controller.run.running or controller.run.probing)
        if self._presses == 1 and driving:
            self._pause()
        else:
            self._presses = 2
            task.cancel()

    def _pause(self) -> None:
        """Let nothing more start, and say what is waited for."""
        controller = self._desk.controller
        assert controller is not None, "something is driven"
        out = ", ".join(controller.run.running) or "a look-up"
        self._screen.complain(
            short(
                f"pausing: nothing more starts; waiting for {out} (Ctrl-C again stops waiting)",
                self._screen.width,
            )
        )
        word = Ask(wish="pause", who=places.speaker(self._screen, None))
        task = asyncio.get_running_loop().create_task(controller.say(word))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _given_up(self) -> None:
        """Stop waiting: what is out is given up, and what became of it is found out by the rules."""
        controller = self._desk.controller
        if controller is None or not (controller.run.running or controller.run.probing):
            self._screen.complain("interrupted")
            return
        out = ", ".join(controller.run.running) or "a look-up"
        self._screen.complain(
            short(f"not waiting any more for {out}; what became of it is not known now", self._screen.width)
        )
        try:
            await self._desk.cut()
        except FsmAgentError as error:
            fail(self._screen, error)

    async def _pause_behind(self) -> None:
        """Ctrl-C at the prompt: pause what is driven behind it."""
        if self._desk.background is not None:
            await self._type("pause")

    # ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────

    def _write(self, lines: Sequence[str]) -> None:
        """Write lines above the prompt if it is there, else where the cursor is."""
        text = "".join(f"{self._screen.fit(line)}\n" for line in lines)
        if self._session.app.is_running:
            with contextlib.suppress(Exception):  # the prompt may end this very moment
                run_in_terminal(lambda: self._out(text))
        else:
            self._out(text)

    def _out(self, text: str) -> None:
        self._screen.out.write(text)
        self._screen.out.flush()

    async def _ask(self, text: str) -> str:
        """Read one more line, which no history keeps; empty if the person would rather not."""
        try:
            return await self._asking.prompt_async(text)
        except (KeyboardInterrupt, EOFError):
            return ""

    def _toolbar(self) -> AnyFormattedText:
        desk = self._desk
        return toolbar(desk.view(), behind=desk.background is not None, width=self._screen.width - 1)

    def _at_end(self) -> bool:
        return self._session.default_buffer.document.is_cursor_at_the_end

    def _ghost(self) -> str:
        return ghost(self._session.default_buffer.document.text)


class _Completer(Completer):
    """Offers what makes sense now."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what can stand at the cursor."""
        del complete_event
        known = Known(run=self._desk.view(), runs=self._desk.runs())
        for found in complete(document.text_before_cursor, known):
            yield Completion(found.text, start_position=-found.typed, display_meta=short(found.about, 60))
