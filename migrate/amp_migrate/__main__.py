"""`python -m amp_migrate` is `amp-migrate`, for when the script is not on the PATH."""

from amp_migrate.cli import main

if __name__ == "__main__":
    main()
