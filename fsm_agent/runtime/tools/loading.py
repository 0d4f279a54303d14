"""Finds a toolbox or a planner by its locator: ``module:attribute`` or ``path/to/tools.py:attribute``.

Loading runs the user's module, so whatever goes wrong there ends in one clear error, SystemExit included.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from fsm_agent.core.errors import ToolboxError
from fsm_agent.runtime.planning.planner import Planner
from fsm_agent.runtime.tools.toolbox import Toolbox


def load_toolbox(locator: str) -> Toolbox:
    """Return the toolbox that *locator* names.

    Args:
        locator: ``module:attribute`` (the working directory counts as a place for modules) or
            ``path/to/file.py:attribute`` (its directory does). The attribute may be dotted.

    Raises:
        ToolboxError: The locator is malformed, the module or attribute is missing, the module fails to load, or
            the attribute is no :class:`Toolbox`.
    """
    found, module, attribute = _find(locator, "tools")
    if found is None:
        boxes = [name for name, value in vars(module).items() if isinstance(value, Toolbox)]
        raise ToolboxError(
            f"tools {locator!r}: {locator.rpartition(':')[0]} has no attribute {attribute!r}; "
            f"toolboxes in it: {', '.join(boxes) or 'none'}"
        )
    if not isinstance(found, Toolbox):
        raise ToolboxError(
            f"tools {locator!r}: {attribute} is a value of type {type(found).__name__}; name a Toolbox"
        )
    return found


def load_planner(locator: str) -> Planner:
    """Return the planner that *locator* names.

    Args:
        locator: As for :func:`load_toolbox`.

    Raises:
        ToolboxError: The locator is malformed, the module or attribute is missing, the module fails to load, or
            the attribute is an object without a method ``propose``.
    """
    found, _, attribute = _find(locator, "planner")
    if not callable(getattr(found, "propose", None)) or isinstance(found, type):
        kind = "missing" if found is None else f"a value of type {type(found).__name__}"
        raise ToolboxError(
            f"planner {locator!r}: {attribute} is {kind}; name an object with a method propose(briefing)"
        )
    planner: Planner = found  # type: ignore[assignment]  # as far as can be seen
    return planner


def _find(locator: str, what: str) -> tuple[object, ModuleType, str]:
    """Return what *locator* names, or None if its module has no such attribute; and both parts of the locator."""
    where, colon, attribute = locator.rpartition(":")
    if not colon or not where or not attribute:
        raise ToolboxError(
            f"{what} {locator!r}: it is no locator; give MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE, such as tools.py:{what}"
        )
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    module = (
        _load_file(where, f"{what} {locator!r}") if is_file else _load_module(where, f"{what} {locator!r}")
    )
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found, module, attribute


def _load_module(name: str, what: str) -> ModuleType:
    with _importable(Path.cwd()):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
                raise ToolboxError(
                    f"{what}: there is no module {error.name!r}; give a module that can be imported from here, or a path that ends in .py"
                ) from None
            raise _failed(what, error) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _failed(what, error) from error


def _load_file(name: str, what: str) -> ModuleType:
    path = Path(name)
    if not os.path.isfile(path):  # noqa: PTH113 - pathlib raises for names that are too long
        folder = os.path.isdir(path)  # noqa: PTH112 - as above
        found = "it is a directory" if folder else "there is no such file"
        raise ToolboxError(f"{what}: {found}; give the path of a Python file")
    path = path.resolve()
    alias = f"fsm_agent_tools_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(alias, path)
    if spec is None or spec.loader is None:
        raise ToolboxError(f"{what}: it is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[alias] = module  # annotations and pickles are resolved through it
    with _importable(path.parent):
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[alias]
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _failed(what, error) from error
    return module


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Put *directory* first on the path while a module loads, and last from then on, where it hides nothing."""
    entry = str(directory)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def _failed(what: str, error: BaseException) -> ToolboxError:
    frames = traceback.extract_tb(error.__traceback__)
    ours = (__file__, importlib.__file__)
    at = next(
        (
            f" at {f.filename}:{f.lineno}"
            for f in reversed(frames)
            if f.filename not in ours and not f.filename.startswith("<")
        ),
        "",
    )
    words = " ".join(str(error).split())[:500]
    return ToolboxError(f"{what}: loading it raised {type(error).__name__}{at}: {words}; repair the module")
