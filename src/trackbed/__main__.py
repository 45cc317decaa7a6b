"""`python -m trackbed` is `trackbed`."""

from trackbed.cli.main import main

if __name__ == "__main__":
    main()
