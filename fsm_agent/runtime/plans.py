"""The public :class:`Plan`: from a file, from text, from a document.

A file is read whole or refused: what is no file, too large, not readable or no text says so by name.
"""

from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

import attrs

from fsm_agent.core import plan, planning, plantext
from fsm_agent.core.errors import Fault, NotFoundError, PlanError


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Plan(plan.Plan):
    """A plan that is sound in itself; a run checks it against its tools.

    Its fields are those of :class:`fsm_agent.core.plan.Plan`.
    """

    @classmethod
    def make(cls, document: Any) -> Self:
        """Return the plan that *document* describes: parsed JSON of any accepted shape.

        Raises:
            PlanError: With every fault.
        """
        return planning.load(document, into=cls)

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """Return the plan in *text*, which may come from a model: fences, prose and comments are read past.

        Raises:
            PlanError: With every fault; or with one, by line and column, when the text holds no single JSON document.
        """
        return cls.make(plantext.read(text))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the plan in the file *path*: JSON in UTF-8, at most 16 MiB.

        Raises:
            NotFoundError: There is no such file.
            PlanError: It cannot be read, or is no sound plan; the message begins with the path.
        """
        shown = fspath(path)
        try:
            return cls.parse(_content(path))
        except PlanError as error:
            raise PlanError(f"{shown}: {error}", error.faults) from None

    def __repr__(self) -> str:
        """One line: the goal, the size, the digest."""
        count = f"{len(self.steps)} step{'s' if len(self.steps) != 1 else ''}"
        return (
            f"<Plan {self.goal!r} {count} {self.digest[:8]}>"
            if self.goal
            else f"<Plan {count} {self.digest[:8]}>"
        )


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
