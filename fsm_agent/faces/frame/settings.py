"""Settings: an option beats the environment, the environment beats a file of the working directory, that beats the default.

The file is ``fsm_agent.toml``, or else the table ``[tool.fsm_agent]`` of ``pyproject.toml``. Whatever could send secrets
elsewhere, such as the address of a model, is read from the environment alone.
"""

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from fsm_agent.core.errors import ConfigError

FILE: Final = "fsm_agent.toml"
PROJECT: Final = "pyproject.toml"
DEFAULT_STORE: Final = ".fsm_agent/runs.db"
"""Where runs are kept when nothing else is said, below the working directory."""


class Setting(NamedTuple):
    """A setting: its name, its environment variable, what it is for, its default, and its kind.

    ``kind`` is ``text``, ``count`` (an integer from 1) or ``flag``. A setting whose ``file`` is False is not read from
    files.
    """

    name: str
    env: str
    help: str
    default: Any = None
    kind: str = "text"
    file: bool = True


SETTINGS: Final = (
    Setting("store", "FSM_AGENT_STORE", "where runs are kept", DEFAULT_STORE),
    Setting("rules", "FSM_AGENT_RULES", "the rule table of plans that bring none", "default"),
    Setting("workers", "FSM_AGENT_WORKERS", "calls at once", 4, "count"),
    Setting("by", "FSM_AGENT_BY", "who speaks; left out, the login name"),
    Setting("ascii", "FSM_AGENT_ASCII", "show ASCII only", False, "flag"),
    Setting("no_color", "NO_COLOR", "no colours", False, "flag"),
    Setting("anchors", "FSM_AGENT_ANCHORS", "a directory where the heads of logs are kept"),
    Setting("signing_key", "FSM_AGENT_SIGNING_KEY", "the private key that checkpoints are signed with"),
    Setting("llm_base_url", "FSM_AGENT_LLM_BASE_URL", "address of the model's endpoint", file=False),
    Setting("llm_model", "FSM_AGENT_LLM_MODEL", "the model's name there", file=False),
    Setting(
        "llm_price_input", "FSM_AGENT_LLM_PRICE_INPUT", "what a million tokens of questions cost", file=False
    ),
    Setting(
        "llm_price_output", "FSM_AGENT_LLM_PRICE_OUTPUT", "what a million tokens of answers cost", file=False
    ),
    Setting("llm_api_key", "FSM_AGENT_LLM_API_KEY", "its key", file=False),
)
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
PASSED_ON: Final = ("rules", "by", "anchors", "signing_key")
"""Settings that are read from the environment further in; those of a file are put there."""
SECRET: Final = frozenset({"llm_api_key"})


class Found(NamedTuple):
    """A setting's value and where it comes from."""

    value: Any
    origin: str


def in_files() -> tuple[Mapping[str, Any], str]:
    """Return what the file of the working directory sets, and the file's name; nothing if there is none.

    Raises:
        ConfigError: The file cannot be read, or has something that is no setting.
    """
    for name in (FILE, PROJECT):
        text = _text(name)
        if text is None:
            continue
        import tomllib

        try:
            found: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            if name == PROJECT:
                continue  # whoever owns that file is told by its own tools
            raise ConfigError(
                f"{name}: it is no TOML ({error}); write NAME = VALUE, a line for each"
            ) from None
        if name == PROJECT:
            tools = found.get("tool")
            found = tools.get("fsm_agent") if isinstance(tools, dict) else None
            if found is None:
                continue
        where = name if name == FILE else f"{name} [tool.fsm_agent]"
        return _checked(found, where), where
    return {}, ""


def _text(name: str) -> str | None:
    try:
        return Path(name).read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        if name == PROJECT:
            return None
        raise ConfigError(f"{name}: it cannot be read ({error}); give a text file in UTF-8") from None


def _checked(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: it is no table; write NAME = VALUE, a line for each")
    known = [s.name for s in SETTINGS if s.file]
    for name, value in found.items():
        setting = BY_NAME.get(name)
        if setting is not None and not setting.file:
            raise ConfigError(f"{where}: {name} is not read from files; set ${setting.env} instead")
        if setting is None:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no setting {name[:40]!r}; {hint}")
        kind = {"text": str, "count": int, "flag": bool}[setting.kind]
        fits = isinstance(value, kind) and isinstance(value, bool) == (setting.kind == "flag")
        if not fits or (setting.kind == "count" and value < 1):
            wanted = {"text": "a text", "count": "an integer from 1", "flag": "true or false"}[setting.kind]
            raise ConfigError(f"{where}: {name} is {value!r}; write {wanted}")
    return found


class Settings:
    """The settings of this process, seen once."""

    def __init__(self, files: Mapping[str, Any], where: str, environ: Mapping[str, str]) -> None:
        """Take what a file sets, and the environment."""
        self._files = files
        self._where = where
        self._environ = dict(environ)

    @classmethod
    def here(cls) -> "Settings":
        """Return the settings of the working directory.

        Raises:
            ConfigError: The file cannot be used.
        """
        return cls(*in_files(), os.environ)

    @contextmanager
    def passed_on(self) -> Iterator[None]:
        """Have what is read from the environment further in stand there, for as long as the context lasts."""
        own = {
            BY_NAME[name].env: str(self._files[name])
            for name in PASSED_ON
            if name in self._files and BY_NAME[name].env not in os.environ
        }
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                os.environ.pop(name, None)

    def find(self, name: str, flag: Any = None) -> Found:
        """Return the value of a setting.

        Args:
            name: Of the setting.
            flag: What an option said, or None.

        Raises:
            ConfigError: The environment has no such value.
        """
        setting = BY_NAME[name]
        if flag:
            return Found(flag, "option")
        text = self._environ.get(setting.env, "")
        if text:
            return Found(_read(setting, text), f"environment ${setting.env}")
        if name in self._files:
            return Found(self._files[name], self._where)
        return Found(setting.default, "default")


def _read(setting: Setting, text: str) -> Any:
    if setting.kind == "flag":
        return setting.env == "NO_COLOR" or text.lower() not in ("0", "false", "no", "off")
    if setting.kind == "count":
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            raise ConfigError(f"${setting.env}: it is {text[:40]!r}; write an integer from 1")
        return int(text)
    return text
