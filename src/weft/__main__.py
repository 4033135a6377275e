"""`python -m weft`, which torchrun needs."""

from weft.cli.main import main

if __name__ == "__main__":
    main()
