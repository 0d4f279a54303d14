"""The public :class:`Plan`: from a file, from text, from a document.

A file is read whole or refused: what is no file, too large, not readable or no text says so by name.
"""

from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import attrs

from fsm_agent.core.errors import Fault, NotFoundError, PlanError
from fsm_agent.core.plans import plan, planning
from fsm_agent.core.plans import text as plantext
from fsm_agent.runtime.tools.toolbox import Toolbox


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Plan(plan.Plan):
    """A plan that is sound in itself; a run checks it against its tools.

    Its fields are those of :class:`fsm_agent.core.plans.plan.Plan`.
    """

    @classmethod
    def make(cls, document: Any, *, tools: Toolbox | None = None) -> Self:
        """Return the plan that *document* describes: parsed JSON of any accepted shape.

        Args:
            document: The parsed JSON.
            tools: If given, what only the toolbox can find wrong is reported together with the rest.

        Raises:
            PlanError: With every fault.
        """
        if tools is None:
            return planning.load(document, into=cls)
        specs = {spec.name: spec for spec in tools.specs}
        return planning.load(document, into=cls, tools=specs, default_tool=tools.default_tool)

    @classmethod
    def parse(cls, text: str | bytes, *, tools: Toolbox | None = None) -> Self:
        """Return the plan in *text*, which may come from a model: fences, prose and comments are read past.

        Args:
            text: The text.
            tools: As for :meth:`make`.

        Raises:
            PlanError: With every fault; or with one, by line and column, when the text holds no single JSON document.
        """
        return cls.make(plantext.read(text), tools=tools)

    @classmethod
    def load(cls, path: str | PathLike[str], *, tools: Toolbox | None = None) -> Self:
        """Return the plan in the file *path*: JSON in UTF-8, at most 16 MiB.

        Args:
            path: The file.
            tools: As for :meth:`make`.

        Raises:
            NotFoundError: There is no such file.
            PlanError: It cannot be read, or is no sound plan; the message begins with the path.
        """
        try:
            return cls.parse(_content(path), tools=tools)
        except PlanError as error:
            raise PlanError(f"{fspath(path)}: {error}", error.faults) from None

    def __repr__(self) -> str:
        """One line: the goal, the size, the digest."""
        count = f"{len(self.steps)} step{'s' if len(self.steps) != 1 else ''}"
        return (
            f"<Plan {self.goal!r} {count} {self.digest[:8]}>"
            if self.goal
            else f"<Plan {count} {self.digest[:8]}>"
        )


def document(path: str | PathLike[str]) -> Any:
    """Return the JSON in the file *path*, read as tolerantly as a plan; whether it is one is not asked here.

    Raises:
        NotFoundError: There is no such file.
        PlanError: It cannot be read, or holds no single JSON document; the message begins with the path.
    """
    try:
        return plantext.read(_content(path))
    except PlanError as error:
        raise PlanError(f"{fspath(path)}: {error}", error.faults) from None


def _content(path: str | PathLike[str]) -> bytes:
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(plantext.MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"plan {file}: there is no such file; give the path of a JSON file") from None
    except IsADirectoryError:
        raise _refusal(
            "not-a-file", "it is a directory", "give the plan file in it, such as plan.json"
        ) from None
    except (OSError, ValueError) as error:
        raise _refusal("not-readable", f"it cannot be read ({error})", "give a readable file") from None
    if not data.strip():
        raise _refusal("empty-file", "it is empty", "give a file that holds a plan")
    return data


def _refusal(code: str, found: str, fix: str) -> PlanError:
    fault = Fault(at="", code=code, message=f"plan file: {found}", fix=fix)
    return PlanError(f"{fault.message}; {fix}", [fault])
