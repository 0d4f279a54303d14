"""Fill the templates with what changes by itself, the same way every time.

``python tests/core/fingerprints/generate.py`` writes ``corpus.jsonl``: one message per line, with its group. The words
of the templates are by hand, in the formats of the libraries that are named; the fillers come from a fixed seed.
"""

import json
import random
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SEED = 20260304
PER_GROUP = 14
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ROOTS = (
    "/tmp",
    "/home/ann",
    "/home/ci",
    "/var/lib/app",
    "/Users/bob",
    "/opt/build",
    "/data",
    "/root",
    "/srv/jobs",
)
_FOLDERS = ("work", "runs", "cache", "build", "src", "job", "out", "v2", "tenant-a", "nightly", "batch")


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _int(rng: random.Random) -> str:
    return str(rng.randrange(1, 10 ** rng.randrange(1, 8)))


def _moment(rng: random.Random) -> datetime:
    return datetime.fromtimestamp(rng.randrange(1_700_000_000, 1_900_000_000), UTC)


def _uuid(rng: random.Random) -> str:
    text = _hex(rng, 32)
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def _duration(rng: random.Random) -> str:
    return rng.choice(
        (
            f"{rng.randrange(1, 999)}ms",
            f"{rng.randrange(1, 600)}s",
            f"{rng.uniform(0.01, 90):.2f}s",
            f"{rng.uniform(0.1, 90):.1f} seconds",
            f"{rng.randrange(1, 9)}m{rng.randrange(1, 59)}s",
            f"{rng.randrange(2, 50)} minutes",
        )
    )


def _folder(rng: random.Random) -> str:
    parts = [rng.choice(_ROOTS)]
    for _ in range(rng.randrange(0, 4)):
        parts.append(rng.choice((*_FOLDERS, _hex(rng, 8), str(rng.randrange(1, 9999)), _uuid(rng))))
    return "/".join(parts)


def _windows_folder(rng: random.Random) -> str:
    parts = [rng.choice(("C:\\Users\\ann", "D:\\jobs", "C:\\Temp"))]
    for _ in range(rng.randrange(0, 3)):
        parts.append(rng.choice((*_FOLDERS, str(rng.randrange(1, 9999)))))
    return "\\".join(parts)


def _http_date(rng: random.Random) -> str:
    t = _moment(rng)
    return f"{_DAYS[t.weekday()]}, {t:%d} {_MONTHS[t.month - 1]} {t:%Y %H:%M:%S} GMT"


def _asctime(rng: random.Random) -> str:
    t = _moment(rng)
    return f"{_DAYS[t.weekday()]} {_MONTHS[t.month - 1]} {t.day:2d} {t:%H:%M:%S %Y}"


def _chinese_time(rng: random.Random) -> str:
    t = _moment(rng)
    return f"{t.year}年{t.month}月{t.day}日 {t.hour}时{t.minute}分{t.second}秒"


def _chinese_date(rng: random.Random) -> str:
    t = _moment(rng)
    return f"{t.year}年{t.month}月{t.day}日"


FILLERS: dict[str, Callable[[random.Random], str]] = {
    "addr": lambda r: f"0x7f{_hex(r, 10)}",
    "asctime": _asctime,
    "base62": lambda r: "".join(r.choice(_BASE62) for _ in range(24)),
    "clock": lambda r: f"{_moment(r):%H:%M:%S}",
    "clockms": lambda r: f"{_moment(r):%H:%M:%S}.{r.randrange(1000):03d}",
    "digit": lambda r: str(r.randrange(0, 9)),
    "dir": _folder,
    "dur": _duration,
    "epoch": lambda r: str(int(_moment(r).timestamp())),
    "epochms": lambda r: str(int(_moment(r).timestamp()) * 1000 + r.randrange(1000)),
    "float": lambda r: f"{r.uniform(0, 10 ** r.randrange(1, 4)):.{r.randrange(1, 4)}f}",
    "hex8": lambda r: _hex(r, 8),
    "hex16": lambda r: _hex(r, 16),
    "hex24": lambda r: _hex(r, 24),
    "hex32": lambda r: _hex(r, 32),
    "hex40": lambda r: _hex(r, 40),
    "hex64": lambda r: _hex(r, 64),
    "httpdate": _http_date,
    "int": _int,
    "int2": lambda r: str(r.randrange(1, 99)),
    "int3": lambda r: f"{r.randrange(1000):03d}",
    "ip4": lambda r: ".".join(str(r.randrange(1, 255)) for _ in range(4)),
    "ip6": lambda r: f"2001:db8:{r.randrange(1, 65535):x}::{r.randrange(1, 65535):x}",
    "iso": lambda r: f"{_moment(r):%Y-%m-%d %H:%M:%S}",
    "isofrac": lambda r: (
        f"{_moment(r):%Y-%m-%dT%H:%M:%S}{r.choice(('', f'.{r.randrange(10**6):06d}'))}+00:00"
    ),
    "isoz": lambda r: f"{_moment(r):%Y-%m-%dT%H:%M:%S}Z",
    "line": lambda r: str(r.randrange(1, 2500)),
    "logts": lambda r: f"{_moment(r):%Y-%m-%d %H:%M:%S},{r.randrange(1000):03d}",
    "ngxts": lambda r: f"{_moment(r):%Y/%m/%d %H:%M:%S}",
    "port": lambda r: str(r.randrange(1024, 65535)),
    "ulid": lambda r: "01" + "".join(r.choice("0123456789ABCDEFGHJKMNPQRSTVWXYZ") for _ in range(24)),
    "uuid": _uuid,
    "wdir": _windows_folder,
    "zhdate": _chinese_date,
    "zhtime": _chinese_time,
}


class _Fill(dict[str, str]):
    """Draws anew for every mention, so that one message may hold two different ports."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.rng = rng

    def __missing__(self, key: str) -> str:
        return FILLERS[key](self.rng)


def groups() -> list[dict[str, Any]]:
    """Return the groups of both template files; ``held_out`` says which."""
    out = []
    for name in ("templates.toml", "held_out.toml"):
        for group in tomllib.loads((HERE / name).read_text(encoding="utf-8"))["group"]:
            out.append({**group, "held_out": name == "held_out.toml"})
    return out


def messages() -> list[dict[str, Any]]:
    """Return all messages, in the order of the templates."""
    rng = random.Random(SEED)
    return [
        {
            "group": group["name"],
            "library": group["library"],
            "held_out": group["held_out"],
            "text": group["text"].replace("\\n", "\n").replace("\\t", "\t").format_map(_Fill(rng)),
        }
        for group in groups()
        for _ in range(PER_GROUP)
    ]


def rendered() -> str:
    """Return the text of ``corpus.jsonl``."""
    return "".join(json.dumps(m, ensure_ascii=False, sort_keys=True) + "\n" for m in messages())


if __name__ == "__main__":
    (HERE / "corpus.jsonl").write_text(rendered(), encoding="utf-8")
