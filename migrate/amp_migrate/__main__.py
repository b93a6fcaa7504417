"""The entry point of `amp-migrate`; `python -m amp_migrate` is the same, for when the script is not on the PATH."""

import sys

from amp_migrate import interrupts


def main() -> None:
    """Run the command; one that is asked to end says how the files are, and shows no traceback."""
    interrupts.listen()  # before the imports, which take longer than much of what comes after them
    try:
        from amp_migrate.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {interrupts.how_it_stands()}\n")
        sys.exit(128 + interrupts.number())  # what a shell shows for a signal


if __name__ == "__main__":
    main()
