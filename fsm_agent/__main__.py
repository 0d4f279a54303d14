"""``fsm-agent``, also ``python -m fsm_agent``."""

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        args: Without the program's name; left out, those of this process.
    """
    try:
        import click  # noqa: F401 - whether it is there decides everything that follows
    except ModuleNotFoundError:
        sys.stderr.write(
            'E-EXTRA fsm-agent: the command line needs more packages; pip install "fsm-agent[cli]"\n'
        )
        return 2
    from fsm_agent.faces.cli import run

    return run(args)


if __name__ == "__main__":
    sys.exit(main())
